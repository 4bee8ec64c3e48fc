"""Draws docs/architecture.svg: the rooms of the code, and arrows for what imports what.

`python docs/architecture.py` writes it from the imports as they are. An arrow that other arrows
imply is left out. `upward` is what must be empty: imports go down, or within a row to the right.
"""

import ast
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("vineppo", "analysis", "benchmarks")

# Row by row from the top: (room, the modules and packages in it). Imports go down or to the right.
ROWS: list[list[tuple[str, list[str]]]] = [
    [("benchmarks", ["benchmarks"]), ("analysis", ["analysis"])],
    [
        ("command line", ["cli"]),
        ("tools", ["tools"]),
        ("recipes", ["recipes"]),
        ("entry points", ["run_command", "train", "sft", "self_training"]),
    ],
    [
        (
            "orchestration",
            ["session", "checkpoint", "experience", "update", "evaluate"],
        ),
        ("values", ["values", "reward_scores"]),
    ],
    [
        ("sampling", ["rollouts", "encoding"]),
        ("passes and updates", ["forward_passes", "minibatches", "policy"]),
    ],
    [
        ("engine", ["engine"]),
        ("models", ["models", "token_scores", "packing", "deepspeed_module", "lora", "no_cache"]),
    ],
    [
        ("tasks", ["tasks"]),
        ("credit, steps", ["credit", "segment", "value_diagnostics"]),
        ("run directory", ["run_dir", "progress", "tracker"]),
    ],
    [
        ("config", ["config", "own_code", "own_reward"]),
        ("ranks", ["distributed", "parent_death", "interruption"]),
    ],
    [
        (
            "pure functions",
            ["losses", "kl", "vocabulary", "batching", "metrics", "schedules", "seeds"],
        ),
        ("types", ["types", "errors", "schema", "require", "interface", "plugins"]),
    ],
]  # fmt: skip
WIDTH, ROW, BOX, GAP, LINE = 1100, 170, 130, 24, 16


def module_of(name: str) -> str:
    """`vineppo.values.heads` is "values", `analysis.frames` is "analysis"."""
    first, *rest = name.split(".")
    if rest[:2] in (["config", "schema"], ["config", "require"], ["engine", "interface"]):
        return rest[1]  # dataclasses, their refusals and a protocol: types
    if rest in (["credit"], ["segment"]):
        return "plugins"  # the base class of their plug-ins
    return rest[0] if first == "vineppo" and rest else first


def imports() -> set[tuple[str, str]]:
    """(importing room, imported room), without those that only the type checker sees."""
    room = {module: name for row in ROWS for name, modules in row for module in modules}
    found = set()
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            importer = room.get(module_of(".".join(parts)))
            if parts == ("vineppo", "__init__"):
                continue
            assert importer is not None, f"{file}: in no room"
            for node in _runtime_nodes(ast.parse(file.read_text())):
                names = (
                    [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [a.name for a in node.names]
                )
                for name in names:
                    if name.split(".")[0] in FOLDERS and (there := room.get(module_of(name))):
                        found.add((importer, there))
    return {(a, b) for a, b in found if a != b}


def _runtime_nodes(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    nodes: list[ast.Import | ast.ImportFrom] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            nodes.append(node)
        nodes += _runtime_nodes(node)
    return nodes


def upward(edges: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The imports that go up, or within a row to the left."""
    order = {name: (y, x) for y, row in enumerate(ROWS) for x, (name, _) in enumerate(row)}
    return sorted((a, b) for a, b in edges if order[a] > order[b])


def reduced(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Without the arrows that a longer way implies."""
    after: dict[str, set[str]] = {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)

    def reach(room: str, seen: set[str]) -> set[str]:
        for following in after.get(room, ()):
            if following not in seen:
                seen.add(following)
                reach(following, seen)
        return seen

    return {(a, b) for a, b in edges if not any(b in reach(c, set()) for c in after[a] - {b})}


def files_of(module: str) -> list[str]:
    """A module's name, or a package's with what is in it."""
    folder = ROOT / module if (ROOT / module).is_dir() else ROOT / "vineppo" / module
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem[0] != "_")
    return [f"{module}/", *(f"·{name}" for name in names)] if folder.is_dir() else [module]


def svg() -> str:
    boxes, parts = {}, []
    for y, row in enumerate(ROWS):
        width = (WIDTH - GAP * (len(row) + 1)) / len(row)
        for x, (name, modules) in enumerate(row):
            left, top = GAP + x * (width + GAP), GAP + y * ROW
            boxes[name] = (left, top, width)
            parts.append(
                f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{BOX}" rx="8"/>'
            )
            parts.append(
                f'<text x="{left + 12:.0f}" y="{top + 22}" class="room">{escape(name)}</text>'
            )
            lines = [""]
            for word in [word for module in modules for word in files_of(module)]:
                if (len(lines[-1]) + len(word)) * 7.9 > width - 24:
                    lines.append("")
                lines[-1] += word + " "
            for i, line in enumerate(lines):
                parts.append(
                    f'<text x="{left + 12:.0f}" y="{top + 42 + i * LINE}">{line.strip()}</text>'
                )
    for a, b in sorted(reduced(imports())):
        (left, top, width), (left_b, top_b, width_b) = boxes[a], boxes[b]
        if top == top_b:
            ends = (left + width, top + BOX / 2, left_b, top_b + BOX / 2)
        else:
            shift = (left_b + width_b / 2 - left - width / 2) / 8
            ends = (left + width / 2 + shift, top + BOX, left_b + width_b / 2 - shift, top_b)
        parts.append('<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}"/>'.format(*ends))
    height = GAP + len(ROWS) * ROW
    style = (
        "rect{fill:#eef3fa;stroke:#667} text{font:13px monospace} .room{font:bold 14px sans-serif}"
        " line{stroke:#667;stroke-width:1.4;marker-end:url(#a)}"
    )
    marker = (
        '<marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">'
    title = "<title>The rooms of vineppo; an arrow is an import</title>"
    ground = f'<path d="M0,0 H{WIDTH} V{height} H0 z" fill="white"/>'
    return "\n".join(
        [head, title, f"<style>{style}</style><defs>{marker}</defs>", ground, *parts, "</svg>\n"]
    )


if __name__ == "__main__":
    assert not upward(imports()), f"imports that go up: {upward(imports())}"
    (ROOT / "docs" / "architecture.svg").write_text(svg())
