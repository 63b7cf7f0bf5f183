"""The LaTeX commands of the characters that occur in MathML."""

# ruff: noqa: RUF001 - the characters of formulas
from __future__ import annotations

from typing import Final

_COMMANDS = """
α alpha β beta γ gamma δ delta ϵ epsilon ε varepsilon ζ zeta η eta θ theta ϑ vartheta ι iota
κ kappa λ lambda μ mu ν nu ξ xi π pi ϖ varpi ρ rho ϱ varrho σ sigma ς varsigma τ tau υ upsilon
ϕ phi φ varphi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Υ Upsilon
Φ Phi Ψ Psi Ω Omega ℏ hbar ℓ ell ℘ wp ℜ Re ℑ Im ℵ aleph ∂ partial ∞ infty ∅ emptyset ∇ nabla
∀ forall ∃ exists ∄ nexists ¬ neg ⊤ top ⊥ bot ∠ angle △ triangle ′ prime … ldots ⋯ cdots ⋮ vdots
⋱ ddots ± pm ∓ mp × times ÷ div ∗ ast ⋅ cdot · cdot ∘ circ ∙ bullet ⊕ oplus ⊖ ominus ⊗ otimes
⊘ oslash ⊙ odot † dagger ‡ ddagger ∩ cap ∪ cup ∧ wedge ∨ vee ∖ setminus ⋆ star ⨯ times
≤ le ≥ ge ≠ ne ≈ approx ≡ equiv ∼ sim ≃ simeq ≅ cong ∝ propto ≪ ll ≫ gg ≺ prec ≻ succ ⪯ preceq
⪰ succeq ⊂ subset ⊃ supset ⊆ subseteq ⊇ supseteq ⊊ subsetneq ∈ in ∉ notin ∋ ni ⊢ vdash ⊣ dashv
⊨ models ∣ mid ∤ nmid ∥ parallel ∦ nparallel ⟂ perp ≔ coloneqq ≜ triangleq ⩽ leqslant ⩾ geqslant
← leftarrow → to ↔ leftrightarrow ⇐ Leftarrow ⇒ Rightarrow ⇔ Leftrightarrow ↦ mapsto ↑ uparrow
↓ downarrow ⟶ longrightarrow ⟵ longleftarrow ⟹ Longrightarrow ⟸ Longleftarrow ⟺ iff ↪ hookrightarrow
↩ hookleftarrow ⇀ rightharpoonup ⇌ rightleftharpoons ⟼ longmapsto ↗ nearrow ↘ searrow
∑ sum ∏ prod ∐ coprod ∫ int ∬ iint ∭ iiint ∮ oint ⋂ bigcap ⋃ bigcup ⋀ bigwedge ⋁ bigvee
⨁ bigoplus ⨂ bigotimes ⨀ bigodot ⨄ biguplus
⟨ langle ⟩ rangle ⌈ lceil ⌉ rceil ⌊ lfloor ⌋ rfloor ‖ Vert √ surd ∴ therefore ∵ because □ square
"""

_words = _COMMANDS.split()
COMMANDS: Final = {sign: f"\\{name}" for sign, name in zip(_words[::2], _words[1::2], strict=True)}
"""Commands by character."""

REPLACEMENTS: Final = COMMANDS | {
    "−": "-", "{": r"\{", "}": r"\}", "%": r"\%", "#": r"\#", "&": r"\&", "_": r"\_", "$": r"\$",
    "\\": r"\backslash", "\xa0": " ", "\u2061": "", "\u2062": "", "\u2063": "", "\u2064": "",
    "~": r"\sim", "^": r"\wedge", "*": "*", "\u200b": "", "\u2009": r"\,", "\u2003": r"\quad",
}  # fmt: skip
"""Replacements by character, also of those with a meaning in LaTeX."""

SPACED: Final = frozenset("=<>+-≤≥≠≈≡∼≃≅∝≪≫⊂⊃⊆⊇∈∉←→↔⇐⇒⇔↦±∓×÷⋅∪∩∧∨∣−:≔⟶⟹⟺")
"""Operators with spaces around them."""

LARGE: Final = frozenset("∑∏∐⋂⋃⋀⋁⨁⨂⨀⨄∫∬∭∮")
"""Operators whose limits are written as scripts."""

_FUNCTIONS = """
arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf
limsup ln log max min Pr sec sin sinh sup tan tanh
"""
FUNCTIONS: Final = frozenset(_FUNCTIONS.split())
"""Names that are commands."""

ACCENTS: Final = {
    "¯": "bar", "‾": "overline", "_": "underline", "^": "hat", "ˆ": "hat", "~": "tilde",
    "˜": "tilde", "→": "vec", "⃗": "vec", "˙": "dot", "¨": "ddot", "ˇ": "check", "˘": "breve",
    "´": "acute", "`": "grave", "⏞": "overbrace", "⏟": "underbrace", "\u0304": "bar",
    "\u0302": "hat", "\u0303": "tilde", "\u0307": "dot", "\u0305": "overline", "―": "overline",
    "⟶": "overrightarrow", "⟵": "overleftarrow", "←": "overleftarrow", "̲": "underline",
}  # fmt: skip
"""Commands of accents above or below a formula, by character."""

FONTS: Final = {
    "bold": "mathbf", "double-struck": "mathbb", "script": "mathcal", "bold-script": "mathcal",
    "fraktur": "mathfrak", "bold-fraktur": "mathfrak", "sans-serif": "mathsf",
    "monospace": "mathtt", "bold-italic": "boldsymbol", "normal": "mathrm",
}  # fmt: skip
"""Commands of the values of ``mathvariant``."""
