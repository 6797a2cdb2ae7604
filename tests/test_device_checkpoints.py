"""Checkpoints that move between processes with and without the device."""

from fresh_process import run, run_failing

SAVE = """
import neuron_lab, torch
neuron_lab.activate()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).to("neuron")
torch.save(model.state_dict(), {path!r})
print(sum(float(p.double().sum()) for p in model.cpu().parameters()))
"""


def save(tmp_path):
    path = str(tmp_path / "model.pt")
    return path, run(SAVE.format(path=path))[0]


def test_dv_1_save_here_load_there_with_the_device(tmp_path):
    path, total = save(tmp_path)
    assert run(
        f"""
        import neuron_lab, torch
        neuron_lab.activate()
        state = torch.load({path!r})
        tensors = list(state.values())
        print({{str(t.device) for t in tensors}}, sum(float(t.cpu().double().sum()) for t in tensors))
        """
    ) == [f"{{'neuron:0'}} {total}"]


def test_dv_1_save_here_load_there_without_the_device(tmp_path):
    path, _ = save(tmp_path)
    message = run_failing(f"import torch; torch.load({path!r})")
    assert "neuron" in message


def test_dv_1_map_location_loads_without_the_device(tmp_path):
    path, total = save(tmp_path)
    assert run(
        f"""
        import torch
        state = torch.load({path!r}, map_location="cpu")
        print({{str(t.device) for t in state.values()}}, sum(float(t.double().sum()) for t in state.values()))
        """
    ) == [f"{{'cpu'}} {total}"]
