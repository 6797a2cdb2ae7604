"""`%%neuron_profile` in a real kernel: the profiled cell behaves like a plain one, and nothing stays armed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from notebook_kernel import Cell, NotebookKernel, kernel_environment

pytestmark = pytest.mark.slow

OPERATORS = "sorted(set(neuron_lab.last_profile().trace.table('operator').strings('name')))"


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    base = tmp_path_factory.mktemp("kernel")
    kernel = NotebookKernel(base, kernel_environment(base))
    assert kernel.run("%load_ext neuron_lab\nimport os, torch, neuron_lab").ok
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(shared_kernel: NotebookKernel, tmp_path: Path) -> NotebookKernel:
    """The kernel, in an empty folder of its own."""
    shared_kernel.run(f"os.chdir({str(tmp_path)!r})")
    return shared_kernel


@pytest.fixture
def fresh_kernel(tmp_path: Path) -> Iterator[NotebookKernel]:
    kernel = NotebookKernel(tmp_path, kernel_environment(tmp_path))
    yield kernel
    kernel.close()


def profile_texts(cell: Cell) -> list[str]:
    return [data["text/plain"] for data in cell.outputs if data["text/plain"].startswith("Profile")]


def test_pr_1_an_error_does_not_leave_the_profiler_on(kernel: NotebookKernel) -> None:
    first = kernel.run("%%neuron_profile\nt = torch.ones(4, device='neuron')\nt.mul_(3)\n1 / 0")
    assert first.error == "ZeroDivisionError"
    assert [message["content"]["ename"] for message in first.of_type("error")] == ["ZeroDivisionError"]
    assert "aten::mul_.Tensor" in kernel.ask(OPERATORS)
    assert "ZeroDivisionError: division by zero" in profile_texts(first)[0]

    assert kernel.run("%%neuron_profile\nt.neg_();").ok
    assert kernel.ask(OPERATORS) == ["aten::neg_"]

    third = kernel.run(
        "from torch.profiler import profile, ProfilerActivity\n"
        "with profile(activities=[ProfilerActivity.CPU]) as p:\n    torch.ones(2) + 1\n"
        "'aten::add' in {e.key for e in p.key_averages()}"
    )
    assert (third.result, third.stream("stderr")) == ("True", "")
    assert (
        kernel.ask("[t.name for t in __import__('threading').enumerate() if t.name.startswith('neuron')]") == []
    )


def test_mg_1_errors_count_as_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in kernel_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    cells = [
        "%load_ext neuron_lab",
        '%%neuron_profile\nraise ValueError("bad batch")',
        'print("should not run")',
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    client = NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}})
    with pytest.raises(CellExecutionError) as caught:
        client.execute()
    assert (caught.value.ename, caught.value.evalue) == ("ValueError", "bad batch")
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, None]


@pytest.mark.parametrize("options", ['--out "my run.json"', '--out="my run.json"', "--out 'my run.json'"])
def test_mg_2_option_values_with_spaces(kernel: NotebookKernel, tmp_path: Path, options: str) -> None:
    assert kernel.run(f"%%neuron_profile {options}\ntorch.ones(2, device='neuron')").ok
    assert [path.name for path in tmp_path.iterdir()] == ["my run.json"]
    assert json.loads((tmp_path / "my run.json").read_text(encoding="utf-8"))["traceEvents"]


def test_mg_2_a_quote_that_is_never_closed_is_one_line_and_the_body_is_not_run(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --out \"my run.json\nprint('ran')")
    message = 'UsageError: %%neuron_profile: --out: the quote " in "my run.json is never closed; close it\n'
    assert (cell.stream("stderr"), cell.stream("stdout"), cell.error) == (message, "", "UsageError")
    assert kernel.ask("os.listdir()") == []


def test_mg_3_a_profiled_cell_behaves_like_a_plain_cell(kernel: NotebookKernel) -> None:
    cell = kernel.run(
        '%%neuron_profile\na = torch.arange(3, device="neuron")\ndef g():\n    return a.sum()\na + 1'
    )
    assert cell.result == "tensor([1, 2, 3], device='neuron:0')"
    assert len(profile_texts(cell)) == 1
    assert kernel.run("_").result == "tensor([1, 2, 3], device='neuron:0')"
    assert kernel.run("g().item()").result == "3"


def test_mg_4_await_inside_a_profiled_cell(kernel: NotebookKernel) -> None:
    source = (
        "%%neuron_profile\nimport asyncio\nawait asyncio.sleep(0.05)\ny = torch.ones(2, device='neuron') * 2"
    )
    assert kernel.run(source).ok
    assert kernel.ask("y.tolist()") == [2.0, 2.0]
    assert kernel.run(source).ok
    assert "aten::mul.Tensor" in kernel.ask(OPERATORS)


def test_mg_4_an_error_after_await_stops_the_run(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile\nimport asyncio\nawait asyncio.sleep(0)\nraise ValueError('late')")
    assert (cell.error, len(cell.of_type("error")), len(profile_texts(cell))) == ("ValueError", 1, 1)


def test_ex_1_loading_more_than_once(fresh_kernel: NotebookKernel) -> None:
    kernel = fresh_kernel
    hooks = "{k: len(v) for k, v in get_ipython().events.callbacks.items()}"
    transforms = "len(get_ipython().input_transformer_manager.line_transforms)"
    matchers = "len(get_ipython().Completer.custom_matchers)"
    before = kernel.ask(f"[{hooks}, {transforms}, {matchers}]")
    for line in (
        "%load_ext neuron_lab",
        "%load_ext neuron_lab",
        "%reload_ext neuron_lab",
        "%reload_ext neuron_lab",
    ):
        assert kernel.run(line).ok, line
    assert kernel.run("import torch, neuron_lab\nneuron_lab.load_ipython_extension(get_ipython())").ok

    cell = kernel.run("%%neuron_profile\nt = torch.ones(3, device='neuron')")
    kernel.run("u = t.sqrt()")
    cell = kernel.run("%%neuron_profile\nu = t.sqrt()")
    assert kernel.ask("neuron_lab.last_profile().trace.table('operator').strings('name')") == ["aten::sqrt"]
    assert len(cell.of_type("display_data")) == 1
    assert kernel.run("%reload_ext neuron_lab").ok  # device tensors exist now
    assert kernel.run("t.sum().item()").result == "3.0"

    assert kernel.run("%unload_ext neuron_lab").ok
    assert kernel.ask(f"[{hooks}, {transforms}, {matchers}]") == before
    names = "[n for kind in get_ipython().magics_manager.magics.values() for n in kind if 'neuron' in n]"
    assert kernel.ask(names) == []
    assert kernel.run("%%neuron_profile\n1").error == "UsageError"
    assert kernel.run("torch.ones(2).sum().item()").result == "2.0"


@pytest.mark.parametrize(
    ("wait", "errors"),
    [
        ("while True: time.sleep(0.01)", {"KeyboardInterrupt"}),
        # ipykernel notices an interrupt only when its event loop wakes up: many short waits, not a long one.
        ("while True: await asyncio.sleep(0.01)", {"KeyboardInterrupt", "CancelledError"}),
    ],
    ids=["running", "awaiting"],
)
def test_an_interrupted_cell_ends_its_profile(kernel: NotebookKernel, wait: str, errors: set[str]) -> None:
    kernel.run("import asyncio, time\nt = torch.ones(2, device='neuron')")
    source = f"%%neuron_profile --name broken\nu = t.exp()\nprint('waiting', flush=True)\n{wait}"
    cell = kernel.run(source, interrupt_at="waiting")
    assert cell.error in errors
    assert len(profile_texts(cell)) == 1
    assert kernel.ask("broken.trace.table('operator').strings('name')") == ["aten::exp"]
    kernel.run("%%neuron_profile --name after\nu = t.log()")
    assert kernel.ask("after.trace.table('operator').strings('name')") == ["aten::log"]


def test_in_and_history_hold_what_the_user_typed(kernel: NotebookKernel) -> None:
    source = "%%neuron_profile --name typed\nx = 1"
    kernel.run(source)
    assert kernel.ask("[In[-2], _i]") == [source, source]


def test_line_numbers_count_the_magic_line(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --name numbers\nx = 1\ndef f():\n    raise KeyError('k')\nf()")
    text = "\n".join(cell.of_type("error")[0]["content"]["traceback"])
    plain = kernel.ask(f"__import__('re').sub(r'\\x1b\\[[0-9;]*m', '', {text!r})")
    assert ", line 5" in plain
    assert ", line 4, in f()" in plain
    assert "# %%neuron_profile --name numbers" in plain
    assert "arm_cell" not in plain


def test_a_place_in_the_profile_is_the_cell_and_its_line(kernel: NotebookKernel) -> None:
    count = kernel.run(
        "%%neuron_profile\nimport torch._dynamo\n"
        "def broken(t):\n    torch._dynamo.graph_break()\n    return t + 1\n"
        "torch.compile(broken, backend='neuron')(torch.ones(2, device='neuron'))"
    ).reply["execution_count"]
    assert kernel.ask("neuron_lab.last_profile().trace.table('graph_break').strings('cell')") == [
        f"In [{count}], line 4"
    ]


def test_a_new_kernel_names_the_cell_that_first_needs_it(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile\nt = torch.ones(3, 5, 7, device='neuron')\n\nu = t.tanh()")
    count = cell.reply["execution_count"]
    kernels = "neuron_lab.last_profile().trace.table('eager_kernel')"
    places = kernel.ask(f"dict(zip({kernels}.strings('name'), {kernels}.strings('place')))")
    assert places["aten::tanh"] == f"In [{count}], line 4"
    assert "ipykernel" not in profile_texts(cell)[0]


def test_the_profile_knows_its_cell(kernel: NotebookKernel) -> None:
    source = "%%neuron_profile --no-live\nx = 1"
    count = kernel.run(source).reply["execution_count"]
    assert kernel.ask("neuron_lab.last_profile().trace.header.context['cell']") == f"In [{count}]"
    assert kernel.ask("neuron_lab.last_profile().trace.header.context['source']") == source


def test_a_name_labels_the_profile_and_is_bound_when_it_is_an_identifier(kernel: NotebookKernel) -> None:
    kernel.run("%%neuron_profile --name decode\nx = 1")
    assert kernel.ask("[decode.name, decode is neuron_lab.last_profile()]") == ["decode", True]
    kernel.run("%%neuron_profile --name 'two words'\nx = 1")
    assert kernel.ask("[neuron_lab.last_profile().name, 'two words' in globals()]") == ["two words", False]


def test_an_option_may_use_a_variable(kernel: NotebookKernel) -> None:
    kernel.run("folder = 'out put'; os.mkdir(folder)")
    assert kernel.run("%%neuron_profile --out {folder}/a.json\nx = 1").ok
    assert kernel.ask("os.listdir(folder)") == ["a.json"]


def test_an_unknown_suffix_is_refused_before_the_body_runs(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --out a.txt\nprint('ran')")
    message = "UsageError: cannot export to 'a.txt': suffix '.txt'; valid: .pftrace, .json, .parquet\n"
    assert (cell.stream("stderr"), cell.stream("stdout")) == (message, "")


def test_a_file_that_cannot_be_written_fails_the_cell_and_keeps_the_profile(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --name kept --out missing/a.json\nx = 41\nx + 1")
    assert (cell.error, cell.result, len(profile_texts(cell))) == ("OutputError", "42", 1)
    shown = cell.of_type("error")[0]["content"]["traceback"]
    assert len(shown) == 1
    assert shown[0].startswith("OutputError: cannot write 'missing/a.json'")
    assert kernel.ask("kept.export('a.json') and os.listdir()") == ["a.json"]


def test_the_file_goes_where_the_cell_began(kernel: NotebookKernel, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert kernel.run("%%neuron_profile --out here.json\nos.chdir('sub')").ok
    assert (tmp_path / "here.json").exists()


def test_a_cell_without_code_is_a_usage_error(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --name nothing\n\n")
    assert cell.stream("stderr") == "UsageError: %%neuron_profile: the cell has no code below this line\n"


def test_a_syntax_error_names_its_line_and_arms_nothing(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile\nx = 1\nif True print(x)")
    assert (cell.error, profile_texts(cell)) == ("SyntaxError", [])
    assert "line 3" in cell.reply["evalue"]


def test_another_cell_magic_below_keeps_its_meaning(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile\n%%capture said\nprint('inside')")
    assert (cell.stream("stdout"), len(profile_texts(cell))) == ("", 1)
    assert kernel.ask("said.stdout") == "inside\n"


def test_a_silent_cell_is_disarmed_too(kernel: NotebookKernel) -> None:
    kernel.run("%%neuron_profile --name quiet\nx = 1", silent=True)
    assert kernel.ask("[quiet.name, quiet.trace.header.error]") == ["quiet", ""]


def test_unloading_in_a_profiled_cell_ends_the_profile(fresh_kernel: NotebookKernel) -> None:
    fresh_kernel.run("%load_ext neuron_lab")
    cell = fresh_kernel.run("%%neuron_profile\n%unload_ext neuron_lab\n7")
    assert (cell.result, len(profile_texts(cell)), cell.stream("stdout")) == ("7", 1, "")


def test_the_line_form_returns_the_value_and_profiles_only_the_statement(kernel: NotebookKernel) -> None:
    kernel.run("t = torch.ones(2, device='neuron')")
    cell = kernel.run("t.neg_()\n%neuron_profile --name one {'k': t.abs().tolist()}")
    assert cell.result == "{'k': [1.0, 1.0]}"
    assert "aten::abs" in kernel.ask("one.trace.table('operator').strings('name')")
    assert "aten::neg_" not in kernel.ask("one.trace.table('operator').strings('name')")


def test_an_error_in_the_line_form_is_the_statements_own(kernel: NotebookKernel) -> None:
    cell = kernel.run("%neuron_profile 1 / 0")
    assert (cell.error, len(cell.of_type("error")), len(profile_texts(cell))) == ("ZeroDivisionError", 1, 1)


def test_await_in_the_line_form_points_to_the_cell_form(kernel: NotebookKernel) -> None:
    cell = kernel.run("%neuron_profile await f()")
    message = (
        "UsageError: %neuron_profile: a line magic cannot await; start the cell with %%neuron_profile instead\n"
    )
    assert (cell.stream("stderr"), profile_texts(cell)) == (message, [])


def test_profiles_inside_a_profiled_cell_see_their_own_interval(kernel: NotebookKernel) -> None:
    kernel.run("t = torch.ones(2, device='neuron')")
    cell = kernel.run(
        "%%neuron_profile --name outer\nu = t.exp()\n%neuron_profile --name inner t.log()\nu = t.cos()"
    )
    names = "sorted(set({}.trace.table('operator').strings('name')))"
    assert kernel.ask(names.format("outer")) == ["aten::cos", "aten::exp", "aten::log"]
    assert kernel.ask(names.format("inner")) == ["aten::log"]
    assert len(profile_texts(cell)) == 2


def test_an_exported_script_runs_the_cell_form_too(kernel: NotebookKernel) -> None:
    cell = kernel.run("get_ipython().run_cell_magic('neuron_profile', '--name script', 'z = 6\\nz + 1\\n')")
    assert (cell.result, kernel.ask("[z, script.name]")) == ("7", [6, "script"])


def test_options_complete_with_the_tab_key(kernel: NotebookKernel) -> None:
    assert kernel.complete("%%neuron_profile --") == ["--name", "--no-live", "--out", "--stacks"]
    assert kernel.complete("%%neuron_profile --stacks --n") == ["--name", "--no-live"]
    assert kernel.complete("%neuron_device trn2.4") == ["trn2.48xlarge"]


def test_the_help_of_a_magic_lists_its_options(kernel: NotebookKernel) -> None:
    doc = kernel.ask("get_ipython().magics_manager.magics['cell']['neuron_profile'].__doc__")
    assert "  --out FILE  write the profile; the suffix decides: .pftrace, .json or .parquet\n" in doc
