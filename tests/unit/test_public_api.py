from __future__ import annotations

import subprocess
import sys

import edgemem

NAMES = {
    "Arena",
    "InferenceSession",
    "Interpreter",
    "EdgememError",
    "OffsetPlan",
    "PlanSet",
    "Problem",
    "SharedObjectsPlan",
    "Target",
    "UsageRecord",
    "load",
    "lower_bounds",
    "plan",
    "save",
    "strategies",
    "verify",
}


def test_the_public_names_are_these() -> None:
    assert set(edgemem.__all__) == NAMES
    assert set(dir(edgemem)) == NAMES
    for name in NAMES:
        assert getattr(edgemem, name).__module__.startswith("edgemem.")


def test_verbs_are_functions_whatever_was_imported_before() -> None:
    code = (
        "import edgemem.api, edgemem.planning, edgemem.cli.main, edgemem_converters.onnx.model, edgemem\n"
        "for verb in ('load', 'plan', 'verify', 'save', 'lower_bounds', 'strategies'):\n"
        "    assert type(getattr(edgemem, verb)).__name__ == 'function', verb\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom edgemem.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'numpy', 'onnx', 'onnxruntime', 'flatbuffers', 'rich', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
