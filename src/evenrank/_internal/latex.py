"""LaTeX: text that cannot break a document, and tables that fit the width of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from unicodedata import normalize

from evenrank._internal.terminal import clean

SYMBOLS = """
    α alpha; β beta; γ gamma; δ delta; ε varepsilon; ζ zeta; η eta; θ theta; ι iota; κ kappa; λ
    lambda; μ mu; ν nu; ξ xi; π pi; ρ rho; σ sigma; ς varsigma; τ tau; υ upsilon; φ varphi; χ chi; ψ
    psi; ω omega; Γ Gamma; Δ Delta; Θ Theta; Λ Lambda; Ξ Xi; Π Pi; Σ Sigma; Υ Upsilon; Φ Phi; Ψ Psi;
    Ω Omega; µ mu; ↑ uparrow; ↓ downarrow; → to; ← gets; ≤ le; ≥ ge; × times; ± pm; · cdot; ∞ infty
"""
MATHS = dict(pair.split() for pair in SYMBOLS.split(";"))
LETTERS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': "''",
        "`": "{`}",  # not the start of a ligature
        "‘": "`",
        "’": "'",
        "“": "``",
        "”": "''",
        "–": "--",
        "—": "---",
        "−": "$-$",
        "…": r"\ldots{}",
        "\xa0": "~",
        **{letter: f"$\\{name}$" for letter, name in MATHS.items()},
        **{letter: f"$^{digit}$" for letter, digit in zip("¹²³⁴⁵", "12345", strict=True)},
        **{letter: f"$_{digit}$" for letter, digit in zip("₀₁₂₃₄₅", "012345", strict=True)},
    }
)
# Latin letters that pdfLaTeX has in the encoding T1; others need XeLaTeX or LuaLaTeX
LATIN = {chr(code) for code in range(0xA1, 0x180)} - set("ĦħĸĿŀŉŦŧſ")
# numbers with a sign or a power of ten need math mode; 12,346 and 0.35 do not
NUMBER = re.compile(
    r"(?<![\w.-])(?=[+-]|\d[\d.]*e[+-])([+-]?\d+(?:,\d{3})*(?:\.\d+)?)(?:e([+-]\d+))?(?![\w.])"
)

LINE = 79  # columns of the source
TEXT_WIDTH = 345.0  # points, of the class article
# from large to small: commands, size of letters relative to 10 points, space beside a column
SIZES = (
    ("", 1.0, 6.0),
    (r"\setlength{\tabcolsep}{4pt}", 1.0, 4.0),
    (r"\small\setlength{\tabcolsep}{4pt}", 0.93, 4.0),
    (r"\footnotesize\setlength{\tabcolsep}{3pt}", 0.86, 3.0),
    (r"\scriptsize\setlength{\tabcolsep}{2.5pt}", 0.81, 2.5),
)
# widths of letters of Computer Modern at 10 points, rounded up
NARROW, MIDDLE, DIGIT, CAPITAL, WIDE = 3.0, 4.0, 5.1, 7.4, 9.4
WIDTHS = {
    **dict.fromkeys("ijl.,:;!|'", NARROW),
    **dict.fromkeys("frst()[]/", MIDDLE),
    **dict.fromkeys("-+@%mw", 8.3),
    **dict.fromkeys("MW", WIDE),
}
BOLD = 1.16


def escape(text: str) -> str:
    r"""Write text so that LaTeX prints it as it is.

    >>> print(escape("a_b & 50% --flag, σ² of Müller"))
    a\_b \& 50\% -{}-flag, $\sigma$$^2$ of Müller
    """
    plain = clean(normalize("NFC", text))
    plain = re.sub("-(?=-)", "-\0", plain)  # no ligature
    return plain.translate(LETTERS).replace("\0", "{}")


def cell(text: str) -> str:
    r"""Write a cell of a table: text, with its signed numbers and powers of ten in math mode.

    >>> print(cell("-0.5"), cell("1.2e-05"), cell("[+1, +2]"))
    $-0.5$ $1.2 \times 10^{-5}$ {[$+1$, $+2$]}
    """
    escaped = NUMBER.sub(_maths, escape(text))
    return f"{{{escaped}}}" if escaped.startswith("[") else escaped  # else \\ reads it as an option


def _maths(number: re.Match[str]) -> str:
    """Write a number in math mode."""
    digits, power = number.groups()
    times = "" if power is None else rf" \times 10^{{{int(power)}}}"
    return f"${digits.replace(',', '{,}')}{times}$"


def comments(lines: Iterable[str]) -> list[str]:
    """Write lines of comments."""
    return [f"% {clean(line)}" for line in lines]


def preamble(tex: str) -> list[str]:
    r"""Say in comments what a document needs in its preamble to print a table.

    >>> print(*preamble("Müller"), sep="; ")
    % in the preamble: \usepackage{booktabs}; % and \usepackage[T1]{fontenc}
    """
    foreign = dict.fromkeys(letter for letter in tex if not letter.isascii())
    lines = [r"in the preamble: \usepackage{booktabs}"]
    if others := [letter for letter in foreign if letter not in LATIN]:
        shown = " ".join(others[:5])
        lines.append(f"pdfLaTeX cannot print {shown}: use XeLaTeX or LuaLaTeX with a font that can,")
        lines.append(r"for Chinese and Japanese \usepackage{xeCJK} with XeLaTeX")
    elif foreign:
        lines.append(r"and \usepackage[T1]{fontenc}")
    return comments(lines)


@dataclass(frozen=True)
class Grid:
    """A table of LaTeX code with booktabs rules.

    Parameters
    ----------
    header : sequence of sequence of str
        Titles of all columns, line by line; above the last line, equal neighbours are joined.
    rows : sequence of sequence of str
        The cells.
    labels : int
        How many columns at the left are left-aligned; all others are right-aligned.
    blocks : sequence of int
        Rows that a rule precedes.
    """

    header: Sequence[Sequence[str]]
    rows: Sequence[Sequence[str]]
    labels: int = 1
    blocks: Sequence[int] = ()

    def tabular(self) -> list[str]:
        """Write the tabular, line by line."""
        columns = "l" * self.labels + "r" * (len(self.header[-1]) - self.labels)
        *groups, last = self.header
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"  \toprule"]
        for titles in groups:
            lines += self._joined(titles)
        lines += [self._line(last), r"  \midrule"]
        for i, row in enumerate(self.rows):
            lines += [r"  \midrule"] * (i in self.blocks)
            lines.append(self._line(row))
        return [*lines, r"  \bottomrule", r"\end{tabular}"]

    def _line(self, cells: Iterable[str]) -> str:
        first, *rest = cells
        if first.startswith(("[", "*")):  # which the line break before it would read as its option
            first = f"{{{first}}}"
        return "  " + " & ".join([first, *rest]) + r" \\"

    def _joined(self, titles: Sequence[str]) -> list[str]:
        """Write titles that span several columns, with rules below them."""
        cells, rules, at = list(titles[: self.labels]), [], self.labels
        for title, same in groupby(titles[self.labels :]):
            width = len(list(same))
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{title}}}")
            if title:
                rules.append(rf"\cmidrule(lr){{{at + 1}-{at + width}}}")
            at += width
        return [self._line(cells), f"  {' '.join(rules)}"]

    def _width(self, size: float, space: float) -> float:
        """Estimate the width in points."""
        widths = [
            max(_printed(row[i]) for row in (self.header[-1], *self.rows)) * size + 2 * space
            for i in range(len(self.header[-1]))
        ]
        for titles in self.header[:-1]:  # a title wider than its columns widens the last of them
            at = self.labels
            for title, same in groupby(titles[self.labels :]):
                end = at + len(list(same))
                missing = _printed(title) * size + 2 * space - sum(widths[at:end])
                widths[end - 1] += max(0.0, missing)
                at = end
        return sum(widths)

    def size(self) -> str | None:
        """Return the commands that make the table fit the width of a page; None if it cannot."""
        return next((how for how, *font in SIZES if self._width(*font) <= TEXT_WIDTH), None)

    def float(self, caption: str, label: str | None = None, notes: Iterable[str] = ()) -> str:
        """Write the table with its caption, as a float, and with notes as comments."""
        size, body = self.size(), self.tabular()
        note = "too wide for one column of text: use table*, or another layout"
        named = rf"\label{{{label}}}" if label else ""
        titled = wrap(
            rf"\caption{{{caption}}}{named}", LINE, break_long_words=False, break_on_hyphens=False
        )
        above = [*titled, r"\smallskip"] if caption or named else []
        return "\n".join(
            [
                *preamble("".join([caption, *body])),
                *([] if size is not None else comments([note])),
                r"\begin{table}[t]",
                r"\centering",
                *above,
                *([size if size is not None else SIZES[-1][0]] if size != "" else []),
                *body,
                r"\end{table}",
                *comments(notes),
            ]
        )


def _printed(tex: str) -> float:
    """Estimate the width of a cell in points, at 10 points."""
    plain = re.sub(r"\\rlap\{.*\}$|\\(?:textbf|underline)|\\,|[{}$^]", "", tex)
    plain = re.sub(r"\\[a-zA-Z]+", "m", plain)  # a symbol
    wide = sum(
        WIDTHS.get(letter) or (CAPITAL if letter.isupper() else DIGIT if letter.isascii() else WIDE)
        for letter in plain
    )
    return wide * BOLD if tex.startswith(r"\textbf") else wide
