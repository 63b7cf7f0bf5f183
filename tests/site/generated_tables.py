"""Generates pages of tables together with the rows that they show."""

from __future__ import annotations

import html
import random
from dataclasses import dataclass, field

LANGUAGES = {
    "en": (["harbour", "tide", "ferry", "lantern", "rope", "mast", "deck", "keel"], "Total"),
    "de": (["Hafen", "Flut", "Fähre", "Laterne", "Größe", "Mast", "Schiff", "Kiel"], "Summe"),
    "fr": (["marée", "port", "bateau", "œuvre", "mât", "pont", "quille", "été"], "Total général"),
    "pl": (["łódź", "przypływ", "prom", "latarnia", "lina", "żagiel"], "Razem"),
    "ru": (["гавань", "прилив", "паром", "фонарь", "канат", "мачта"], "Итого"),
    "ja": (["港", "潮", "渡し船", "灯", "縄", "帆柱"], "合計"),
    "ar": (["ميناء", "مد", "عبارة", "فانوس", "حبل", "صاري"], "المجموع"),
    "tr": (["liman", "gelgit", "feribot", "fener", "iğne", "gövde"], "Toplam"),
}
UNITS = ("mm", "km/h", "°C", "€", "%")
HIDDEN = ('style="display:none"', 'style="DISPLAY : none"', "hidden", 'style="visibility: hidden"')
SIGNS = (
    "a*b*c",
    "x < y & z",
    "snake_case_id",
    "[note]",
    "1 | 2",
    "#1",
    "$5",
    "`tick`",
    "~2~",
    "\\n",
)


@dataclass(slots=True)
class Cell:
    """A cell: what it shows, its HTML, and the rows and columns that it covers."""

    text: str
    markup: str
    height: int = 1
    width: int = 1


@dataclass(slots=True)
class GeneratedTable:
    """A table as HTML, and what it shows."""

    markup: str
    header: list[str]
    rows: list[list[str]]
    totals: list[int]
    features: set[str] = field(default_factory=set)


class TableGenerator:
    """Generates tables from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words: list[str] = []
        self._features: set[str] = set()

    def table(self) -> GeneratedTable:
        """Generate a table of 2 to 6 columns and 2 to 9 rows."""
        pick = self._random
        self._words, total = pick.choice(list(LANGUAGES.values()))
        self._features = set()
        columns, count = pick.randint(2, 6), pick.randint(2, 9)
        has_header = pick.random() < 0.8
        if not has_header:
            self._features.add("no header")
        numeric = [False, *(pick.random() < 0.5 for _ in range(columns - 1))]
        units = [pick.choice(UNITS) if number and pick.random() < 0.5 else "" for number in numeric]
        header, head = self._header(columns, units) if has_header else ([], "")
        grid = [[self._cell(numeric[column]) for column in range(columns)] for _ in range(count)]
        rows, body = self._body(grid)
        totals = []
        if has_header and pick.random() < 0.25:
            self._features.add("total")
            sums = [self._number() for _ in range(columns - 1)]
            rows.append([total, *(cell.text for cell in sums)])
            cells = "".join(f"<td>{cell.markup}</td>" for cell in sums)
            label = pick.choice(("<th>{}</th>", "<td><b>{}</b></td>", "<td>{}:</td>")).format(total)
            if label.endswith(":</td>"):
                rows[-1][0] += ":"
            row = f"<tr>{label}{cells}</tr>"
            body += f"<tfoot>{row}</tfoot>" if pick.random() < 0.5 else row
            totals = [len(rows) - 1]
        caption = f"<caption>{self._word()}</caption>" if pick.random() < 0.2 else ""
        markup = f"<table>{caption}{head}{body}</table>"
        return GeneratedTable(markup, header, rows, totals, self._features)

    def _header(self, columns: int, units: list[str]) -> tuple[list[str], str]:
        pick = self._random
        names = [f"{self._word()} {n}" for n in range(columns)]
        for n, unit in enumerate(units):
            if unit:
                self._features.add("unit")
                names[n] += f" ({unit})" if pick.random() < 0.5 else f" [{unit}]"
        cells = [f"<th>{html.escape(name)}</th>" for name in names]
        if columns > 2 and pick.random() < 0.2:
            self._features.add("header of two rows")
            group = self._word()
            first = f"<tr><th rowspan=2>{html.escape(names[0])}</th><th colspan={columns - 1}>"
            first += f"{group}</th></tr>"
            names[1:] = [f"{group} {name}" for name in names[1:]]
            rows = f"{first}<tr>{''.join(cells[1:])}</tr>"
        else:
            rows = f"<tr>{''.join(cells)}</tr>"
        return names, f"<thead>{rows}</thead><tbody>" if pick.random() < 0.5 else rows

    def _body(self, grid: list[list[Cell]]) -> tuple[list[list[str]], str]:
        """Let some cells cover others; return what the rows show, and their HTML."""
        pick, lines = self._random, []
        count, columns = len(grid), len(grid[0])
        shown: list[list[str | None]] = [[None] * columns for _ in grid]
        begins: set[tuple[int, int]] = set()
        for row in range(count):
            for column in range(columns):
                if shown[row][column] is not None:
                    continue
                cell = grid[row][column]
                if pick.random() < 0.08:
                    cell.width = pick.randint(1, columns - column)
                    cell.height = pick.randint(1, count - row)
                    free = all(
                        shown[row + down][column + right] is None
                        for down in range(cell.height)
                        for right in range(cell.width)
                    )
                    if not free or "no repeat" in cell.markup:
                        cell.width = cell.height = 1
                    elif cell.width * cell.height > 1:
                        self._features.add("span")
                begins.add((row, column))
                for down in range(cell.height):
                    for right in range(cell.width):
                        shown[row + down][column + right] = cell.text
        rows = [[text or "" for text in row] for row in shown]
        # A row or a column in which no cell begins is none: give it one.
        for row in range(count):
            if not any((row, column) in begins for column in range(columns)):
                return self._body([[self._plain() for _ in range(columns)] for _ in grid])
        for column in range(columns):
            if not any((row, column) in begins for row in range(count)):
                return self._body([[self._plain() for _ in range(columns)] for _ in grid])
        for row in range(count):
            cells = ""
            for column in range(columns):
                if (row, column) in begins:
                    cell = grid[row][column]
                    cells += f"<td{self._spans(cell)}>{cell.markup}</td>"
            lines.append(f"<tr>{cells}</tr>")
        return rows, "".join(lines)

    def _spans(self, cell: Cell) -> str:
        width = f' colspan="{cell.width}"' if cell.width > 1 else ""
        return width + (f" rowspan={cell.height}" if cell.height > 1 else "")

    def _word(self) -> str:
        return self._random.choice(self._words)

    def _plain(self) -> Cell:
        text = " ".join(self._word() for _ in range(self._random.randint(1, 3)))
        return Cell(text, text)

    def _number(self) -> Cell:
        pick = self._random
        text = pick.choice(
            (str(pick.randint(-50, 5000)), f"{pick.randint(0, 99)}.{pick.randint(1, 9)}")
        )
        return Cell(text, text)

    def _cell(self, number: bool) -> Cell:
        pick = self._random
        if pick.random() < 0.05:
            return Cell("", pick.choice(("", " ", "&nbsp;", "<p></p>")))
        cell = self._number() if number else self._plain()
        feature = pick.choice(
            ("hidden", "exponent", "reference", "link", "bold")
            if number
            else (
                "hidden",
                "link",
                "code",
                "pre",
                "blocks",
                "list",
                "nested",
                "image",
                "signs",
                "br",
            )
        )
        if feature == "nested" and "no header" in self._features:
            return cell  # such a table arranges others
        if pick.random() < 0.35:
            self._features.add(feature)
            getattr(self, f"_with_{feature}")(cell)
        return cell

    def _with_hidden(self, cell: Cell) -> None:
        key = f"<span {self._random.choice(HIDDEN)}>000{self._random.randint(1, 99)}</span>"
        cell.markup = (
            f"{key}{cell.markup}" if self._random.random() < 0.5 else f"{cell.markup}{key}"
        )

    def _with_exponent(self, cell: Cell) -> None:
        power = self._random.randint(2, 12)
        cell.text, cell.markup = f"{cell.text}^{power}", f"{cell.markup}<sup>{power}</sup>"

    def _with_reference(self, cell: Cell) -> None:
        mark = self._random.choice(("1", "[2]", "a", "*"))
        link = f'<a href="#note-{self._random.randint(1, 9)}">{mark}</a>'
        cell.markup += f"<sup>{link}</sup>"

    def _with_link(self, cell: Cell) -> None:
        cell.markup = f'<a href="/page/{self._random.randint(1, 99)}">{cell.markup}</a>'

    def _with_bold(self, cell: Cell) -> None:
        tag = self._random.choice(("b", "strong", "em", "i", "span", "u"))
        cell.markup = f"<{tag}>{cell.markup}</{tag}>"

    def _with_code(self, cell: Cell) -> None:
        code = self._random.choice(("a_b|c", "x = *y", "f(<T>)", "ls -l"))
        cell.text, cell.markup = (
            f"{cell.text} {code}",
            f"{cell.markup} <code>{html.escape(code)}</code>",
        )

    def _with_pre(self, cell: Cell) -> None:
        lines = [f"bay {self._word()} --to x_{n}" for n in range(self._random.randint(1, 3))]
        cell.text = " ".join(lines)
        cell.markup = f"<pre><code>{chr(10).join(lines)}</code></pre>"

    def _with_blocks(self, cell: Cell) -> None:
        parts = [self._plain().text for _ in range(2)]
        tag = self._random.choice(("p", "div"))
        cell.text = " ".join(parts)
        cell.markup = "".join(f"<{tag}>{part}</{tag}>" for part in parts)

    def _with_list(self, cell: Cell) -> None:
        parts = [self._plain().text for _ in range(self._random.randint(1, 3))]
        cell.text = " ".join(parts)
        cell.markup = f"<ul>{''.join(f'<li>{part}</li>' for part in parts)}</ul>"

    def _with_nested(self, cell: Cell) -> None:
        rows = [[self._word(), self._word()] for _ in range(2)]
        inner = "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in rows)
        cell.text = " ".join([cell.text, *(word for row in rows for word in row)])
        # A cell with a table is not repeated.
        cell.markup = f"{cell.markup}<!-- no repeat --><table>{inner}</table>"

    def _with_image(self, cell: Cell) -> None:
        cell.text = self._word()
        cell.markup = f'<!-- no repeat --><img src="/flag.png" alt="{cell.text}">'

    def _with_signs(self, cell: Cell) -> None:
        sign = self._random.choice(SIGNS)
        cell.text, cell.markup = f"{cell.text} {sign}", f"{cell.markup} {html.escape(sign)}"

    def _with_br(self, cell: Cell) -> None:
        other = self._word()
        cell.text, cell.markup = f"{cell.text} {other}", f"{cell.markup}<br>{other}"
