"""Charts of a run: a PNG, and one HTML file with the charts and every table in it."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from bench._view import number
from npu_xfer._settings import parse_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from bench._model import Row, Run
    from bench._targets import Verdict

# Okabe and Ito's colours, which people with any colour vision tell apart; the marker says it once more.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_VERDICT_COLOURS = {"reached": "#0072B2", "not reached": "#D55E00"}


def _series(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """Points (bytes, GB/s) by path and contender, of settings such as "h2d direct 4KiB"."""
    series: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        words = row.setting.split()
        try:
            nbytes = parse_nbytes(words[-1])
        except ValueError:
            continue
        if row.gb_per_s:
            series.setdefault(" ".join([*words[1:-1], row.who]), []).append((nbytes, row.gb_per_s))
    return series


def _sizes(axes: Axes, rows: Sequence[Row], title: str) -> None:
    """Rate over size, both logarithmic."""
    for i, (name, points) in enumerate(sorted(_series(rows).items())):
        xs, ys = zip(*sorted(points), strict=True)
        colour, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]
        line = "-" if i < len(_COLOURS) else "--"
        axes.plot(xs, ys, line, color=colour, marker=marker, markersize=4, linewidth=1.2, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes of one transfer")
    axes.set_ylabel("rate in GB/s (10^9 bytes)")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=6, ncol=2)


def _verdicts(axes: Axes, verdicts: Sequence[Verdict], where: str) -> None:
    """How far each check is from its target: right of 1 is reached."""
    shown = []
    for one in verdicts:
        relation, text, *_ = one.wanted.split()
        if one.value and float(text):
            share = one.value / float(text)
            shown.append((f"{one.target} {one.check}", share if ">" in relation else 1 / share, one.verdict))
    shown.reverse()
    for i, (_, share, verdict) in enumerate(shown):
        axes.plot([1, share], [i, i], color="#999999", linewidth=1)
        marker = "o" if verdict == "reached" else "X"
        axes.plot([share], [i], marker=marker, color=_VERDICT_COLOURS.get(verdict, "#999999"))
    axes.axvline(1, color="#000000", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [name for name, *_ in shown], fontsize=6)
    axes.set_xlabel("times the target (1 and more: reached)")
    axes.set_title(f"targets, {where}", fontsize=10)
    axes.grid(alpha=0.3, axis="x")


def draw(run: Run, verdicts: Sequence[Verdict]) -> bytes:
    """The charts as PNG."""
    mpl.use("Agg")
    charts = [
        (name, way, rows)
        for name in ("sweep", "ways", "queued")
        for way in ("h2d", "d2h")
        if _series(rows := [r for r in run.rows if r.case == name and r.setting.startswith(way)])
    ]
    n_lines = -(-len(charts) // 2)
    figure = Figure(figsize=(11, 4.2 * n_lines + 6), layout="constrained")
    figure.suptitle(f"{run.where}\n{run.machine['cpu']}, {run.machine['cpus']} cores, commit {run.commit}")
    grid = figure.add_gridspec(n_lines + 1, 2, height_ratios=[1.0] * n_lines + [1.4])
    where = "simulator" if run.simulated else "hardware"
    for i, (name, way, rows) in enumerate(charts):
        _sizes(figure.add_subplot(grid[i // 2, i % 2]), rows, f"{name}, {way}, {where}")
    _verdicts(figure.add_subplot(grid[n_lines, :]), verdicts, where)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=110)
    return target.getvalue()


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>"


def _html(run: Run, verdicts: Sequence[Verdict], picture: bytes) -> str:
    targets = [
        [one.target, one.check, one.wanted, number(one.value), one.verdict, one.reason or one.setting]
        for one in verdicts
    ]
    parts = [_html_table(["", "check", "wanted", "found", "verdict", "where, or why"], targets)]
    for name in dict.fromkeys(row.case for row in run.rows):
        rows = [
            [
                row.setting,
                row.who,
                number(row.median),
                row.unit,
                f"{row.spread:.0%}",
                number(row.gb_per_s),
                row.waived or row.failure or (f"{row.verified} verified" if row.verified else row.note),
            ]
            for row in run.rows
            if row.case == name
        ]
        where = "simulator" if run.simulated else "hardware"
        parts.append(f"<h2>{escape(name)} ({where})</h2>")
        parts.append(_html_table(["setting", "who", "median", "unit", "spread", "GB/s", "bytes"], rows))
    facts = f"{run.machine['cpu']}, {run.machine['cpus']} cores, commit {run.commit}, {run.date}"
    encoded = base64.b64encode(picture).decode()
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>npu_xfer benchmark</title>"
        "<style>body{font:14px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
        "td,th{text-align:left;padding:.1em .8em .1em 0}img{max-width:100%}</style>"
        f"<h1>npu_xfer benchmark</h1><p><b>{escape(run.where)}</b></p><p>{escape(facts)}</p>"
        f'<img alt="charts of the tables below" src="data:image/png;base64,{encoded}">' + "".join(parts)
    )


def write(run: Run, verdicts: Sequence[Verdict], png: Path | None, html: Path | None) -> None:
    picture = draw(run, verdicts)
    if png is not None:
        png.write_bytes(picture)
    if html is not None:
        html.write_text(_html(run, verdicts, picture), encoding="utf-8")
