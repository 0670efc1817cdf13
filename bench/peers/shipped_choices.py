# SPDX-License-Identifier: Apache-2.0
"""How products are computed fastest (gpu/cuda/gemm/gemm_choices.hpp), as measured here, made a file to ship."""
import json
import pathlib

SHIPPED = pathlib.Path(__file__).resolve().parent.parent.parent / "configs/gpus/product-choices.json"


def shippable(measured, shipped):
    """The text of a file that can take the shipped one's place; what was measured comes first, and counts."""
    measured, shipped = json.loads(measured), json.loads(shipped)
    devices = list(measured["devices"])
    if shipped["format"] == measured["format"]:
        devices += [part for part in shipped["devices"] if part not in devices]
    return json.dumps(measured | {"devices": devices}, indent=1) + "\n"
