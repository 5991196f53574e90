# SPDX-License-Identifier: MIT
"""Compiler from ONNX to the .qbm container, and the tool qbm.

container, program, rules, isa_tables and asm import neither onnx nor NumPy,
so that a build can assemble files with a bare Python. _isa, the extension
over kmod-shim/isa, is optional: only what validates programs imports it.
"""

__version__ = "0.1.0"
