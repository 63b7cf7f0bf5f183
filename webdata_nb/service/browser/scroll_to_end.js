(async () => {
  const step = Math.max(innerHeight, 200);
  const end = () => Math.min(document.documentElement.scrollHeight, %d);
  for (let y = 0, n = 0; y < end() && n < 64; y += step, n++) {
    scrollTo({top: y, behavior: "instant"});
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  scrollTo({top: 0, behavior: "instant"});
})()
