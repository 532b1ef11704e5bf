#!/usr/bin/env python3
"""Writes src/quant/codebooks.cpp from tests/golden/quant/codebooks.json."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
# JSON key, name and element type in codebooks.h
TABLES = [
    ("iq4nl", "kIq4nl", "int8_t"),
    ("fp4_x2", "kFp4X2", "int8_t"),
    ("signs7", "kSigns7", "uint8_t"),
    ("iq2_xxs", "kIq2Xxs", "uint64_t"),
    ("iq2_xs", "kIq2Xs", "uint64_t"),
    ("iq2_s", "kIq2S", "uint64_t"),
    ("iq3_xxs", "kIq3Xxs", "uint32_t"),
    ("iq3_s", "kIq3S", "uint32_t"),
    ("iq1", "kIq1", "uint64_t"),
]


def words(table):
    """The entries as C++ literals."""
    dim, values = table["dim"], table["values"]
    assert len(values) == table["count"] * dim
    if dim == 1:
        return [str(value) for value in values]
    packed = [bytes(value % 256 for value in values[i : i + dim]) for i in range(0, len(values), dim)]
    return [f"0x{int.from_bytes(entry, 'little'):0{2 * dim}x}" for entry in packed]


def filled_lines(items):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > COLUMNS:
            yield line
            line = "   "
        line += f" {item},"
    yield line


def main():
    tables = json.loads((ROOT / "tests/golden/quant/codebooks.json").read_text())
    out = ["// Made by scripts/make_codebooks.py; edit that instead.", '#include "quant/codebooks.h"', "",
           "namespace strata::quant {", ""]
    for key, name, element in TABLES:
        entries = words(tables[key])
        out += [f"const {element} {name}[{len(entries)}] = {{", *filled_lines(entries), "};", ""]
    out.append("}  // namespace strata::quant")
    (ROOT / "src/quant/codebooks.cpp").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
