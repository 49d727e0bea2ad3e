from __future__ import annotations

import subprocess
import sys

import edgemem

NAMES = {
    "Arena",
    "Checked",
    "DecoderState",
    "Difference",
    "GpuExecutor",
    "InferenceSession",
    "Interpreter",
    "EdgememError",
    "OffsetPlan",
    "Ordering",
    "PlanSet",
    "Problem",
    "SharedObjectsPlan",
    "Shrunk",
    "Target",
    "UsageRecord",
    "check",
    "diff",
    "load",
    "lower_bounds",
    "order",
    "plan",
    "save",
    "save_report",
    "shrink",
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
        "import edgemem.api, edgemem.planning, edgemem.shrinking.search, edgemem.cli.main\n"
        "import edgemem_converters.onnx.model, edgemem\n"
        "verbs = 'check diff load order plan shrink verify save save_report lower_bounds strategies'\n"
        "for verb in verbs.split():\n"
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


def test_training_steps_without_pytorch_say_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from edgemem.errors import MissingDependencyError\n"
        "try:\n    import edgemem.torch\n"
        "except MissingDependencyError as e:\n    assert \"pip install 'torch>=2.13'\" in str(e), e\n"
        "else:\n    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_whose_package_is_missing_is_not_there_and_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['ai_edge_litert'] = sys.modules['tflite_runtime'] = None\n"
        "import edgemem\n"
        "assert not hasattr(edgemem, 'Interpreter')\n"
        "try:\n    edgemem.Interpreter\n"
        "except edgemem.EdgememError as e:\n    assert \"pip install 'ai-edge-litert>=2.1'\" in str(e), e\n"
        "else:\n    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plan_set_is_shown_in_one_line() -> None:
    problem = edgemem.Problem([edgemem.UsageRecord(f"r{k}", k, k + 1, 64) for k in range(500)])
    shown = repr(edgemem.plan(problem, strategy="greedy_by_size"))
    assert shown.startswith("PlanSet(records=500, lower_bound=128, offsets=greedy_by_size:128, ")
    assert len(shown) < 160
