(() => {
  const tops = [document.documentElement, document.body].filter(Boolean);
  return {height: Math.max(0, ...tops.flatMap(
    top => [top.scrollHeight, top.offsetHeight, top.clientHeight]))};
})()
