"""`torch.neuron`: what users and libraries call on the emulated trn2.3xlarge."""

import threading

import pytest
import torch

import neuron_lab

HBM_BYTES = 25_769_803_776


@pytest.fixture(scope="module", autouse=True)
def device():
    neuron_lab.activate(mode="emulated")
    return torch.neuron


@pytest.fixture(autouse=True)
def back_to_core_0(device):
    yield
    torch.neuron.set_device(0)


def test_the_module_is_found_under_every_name_libraries_use():
    import torch_neuronx

    assert torch.get_device_module("neuron") is torch.neuron
    assert torch.get_device_module() is torch.neuron
    assert torch_neuronx.neuron is torch.neuron
    assert torch.neuron.__name__.split(".")[-1] == "neuron"


def test_every_public_name_exists():
    assert [name for name in torch.neuron.__all__ if not hasattr(torch.neuron, name)] == []


def test_four_cores_are_available():
    assert torch.neuron.is_available() is True
    assert torch.neuron.device_count() == 4
    assert torch.accelerator.device_count() == 4


def test_set_device_takes_an_index_or_a_device_and_ignores_one_without_index():
    torch.neuron.set_device(2)
    assert torch.neuron.current_device() == 2
    torch.neuron.set_device(torch.device("neuron:1"))
    torch.neuron.set_device(torch.device("neuron"))
    assert torch.neuron.current_device() == 1
    assert torch.accelerator.current_device_index() == 1


def test_set_device_out_of_range_names_the_range():
    with pytest.raises(ValueError, match=r"^Invalid device id: 4\. Valid range is 0 to 3$"):
        torch.neuron.set_device(4)


def test_the_current_device_belongs_to_a_thread():
    torch.neuron.set_device(2)
    seen = []

    def other():
        torch.neuron.set_device(1)
        seen.append(torch.neuron.current_device())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert (seen, torch.neuron.current_device()) == ([1], 2)


def test_device_switches_and_restores():
    with torch.neuron.device(3):
        assert torch.ones(1, device="neuron").device == torch.device("neuron:3")
    assert torch.neuron.current_device() == 0


def test_device_without_a_choice_changes_nothing():
    with torch.neuron.device(None), torch.neuron.device(-1):
        assert torch.neuron.current_device() == 0


def test_an_integer_means_a_neuron_device_in_to():
    assert torch.ones(1).to(torch.neuron.current_device()).device == torch.device("neuron:0")


def test_a_tensor_on_a_core_that_is_not_there_names_the_range():
    with pytest.raises(
        (RuntimeError, ValueError),
        match=r"Device index 9 is out of range\. Valid range is 0 to 3 for this process",
    ):
        torch.ones(1, device="neuron:9")


def test_device_names_follow_the_real_device():
    assert torch.neuron.get_device_name() == "neuron:0"
    assert torch.neuron.get_device_name(1) == "neuron:1"
    assert torch.neuron.get_device_name(torch.device("neuron:2")) == "neuron:2"
    with pytest.raises(ValueError, match=r"expected torch\.device or int type"):
        torch.neuron.get_device_name("neuron:0")


@pytest.mark.parametrize("given", [None, 1, "1", "neuron", "neuron:1"])
def test_properties_are_the_family_and_the_memory_of_a_core(given):
    properties = torch.neuron.get_device_properties(given)
    assert (properties.name, properties.total_memory) == ("trn2", HBM_BYTES)


def test_properties_of_another_devices_type_are_refused():
    with pytest.raises(ValueError, match="Expected neuron device, got cpu"):
        torch.neuron.get_device_properties("cpu")


def test_precision_answers():
    assert torch.neuron.is_bf16_supported() is True
    assert torch.neuron.get_amp_supported_dtype() == [torch.float32, torch.float16, torch.bfloat16]


def test_autocast_to_bfloat16_works():
    weight = torch.ones(2, 2, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (weight @ weight).dtype == torch.bfloat16


def test_the_runtime_is_initialized_once_a_tensor_exists():
    torch.ones(1, device="neuron")
    assert torch.neuron.is_initialized() is True
    torch.neuron.init()
    torch.neuron.synchronize()
    torch.neuron.synchronize("neuron:1")
    torch.accelerator.synchronize()


# Memory


def test_dv_2_memory_numbers_move():
    def readings():
        return (
            torch.neuron.memory_allocated(),
            torch.accelerator.memory_allocated(),
            torch.neuron.memory_stats()["allocated_bytes"]["current"],
        )

    others = [torch.neuron.memory_allocated(core) for core in (1, 2, 3)]
    torch.neuron.reset_peak_memory_stats()
    before = readings()
    x = torch.empty(1000, 1000, device="neuron:0")
    held = readings()
    del x
    after = readings()

    assert len(set(before)) == len(set(held)) == 1
    rise = held[0] - before[0]
    assert 4_000_000 <= rise <= 4_000_000 + 512
    assert after == before
    assert torch.neuron.max_memory_allocated() - before[0] == rise
    assert torch.accelerator.max_memory_allocated() == torch.neuron.max_memory_allocated()
    assert [torch.neuron.memory_allocated(core) for core in (1, 2, 3)] == others


def test_free_memory_is_what_the_core_has_minus_what_tensors_hold():
    x = torch.empty(1 << 20, device="neuron:1")
    free, total = torch.neuron.mem_get_info(1)
    assert total == HBM_BYTES
    assert free == HBM_BYTES - torch.neuron.memory_allocated(1)
    assert torch.accelerator.get_memory_info(1) == (free, total)
    del x


def test_accumulated_counters_go_back_to_zero():
    torch.empty(1000, device="neuron:2")
    assert torch.neuron.memory_stats(2)["allocation_requests"] > 0
    torch.neuron.reset_accumulated_memory_stats(2)
    stats = torch.neuron.memory_stats(2)
    assert (stats["allocation_requests"], stats["num_tensor_frees"]) == (0, 0)
    assert (stats["allocated_bytes"]["allocated"], stats["allocated_bytes"]["freed"]) == (0, 0)


def test_reserved_equals_allocated():
    x = torch.empty(1000, device="neuron")
    assert torch.neuron.memory_reserved() == torch.neuron.memory_allocated()
    assert torch.neuron.max_memory_reserved() == torch.neuron.max_memory_allocated()
    del x
    torch.neuron.empty_cache()


def test_the_summary_is_the_real_devices_table():
    lines = torch.neuron.memory_summary(1).splitlines()
    assert lines[0] == "=" * 75
    assert lines[1] == "  Neuron Memory Summary, Device 1"
    assert [line.split()[0] for line in lines[-4:-1]] == ["Allocated", "Reserved", "Active"]


# Random numbers


def test_torch_manual_seed_gives_the_numbers_of_the_cpu():
    torch.manual_seed(7)
    on_cpu = torch.randn(5)
    torch.manual_seed(7)
    assert torch.equal(torch.randn(5, device="neuron").cpu(), on_cpu)


def test_torch_manual_seed_reaches_every_device():
    torch.manual_seed(11)
    with torch.neuron.device(3):
        assert torch.neuron.initial_seed() == 11


def test_seeding_the_device_changes_no_numbers():
    torch.manual_seed(7)
    expected = torch.randn(3)
    torch.manual_seed(7)
    torch.neuron.manual_seed(1)
    torch.neuron.manual_seed_all(2)
    assert torch.equal(torch.randn(3, device="neuron").cpu(), expected)


def test_a_state_is_seed_and_offset_in_16_bytes():
    torch.neuron.manual_seed_all(0x0102)
    state = torch.neuron.get_rng_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert state.tolist() == [2, 1] + [0] * 14


def test_states_of_all_devices_are_saved_and_restored():
    torch.neuron.manual_seed_all(5)
    states = torch.neuron.get_rng_state_all()
    torch.neuron.manual_seed_all(6)
    torch.neuron.set_rng_state_all(states)
    assert len(states) == 4
    assert torch.neuron.initial_seed() == 5


def test_a_state_of_8_bytes_is_the_seed_alone():
    torch.neuron.set_rng_state(torch.tensor([9, 0, 0, 0, 0, 0, 0, 0], dtype=torch.uint8), 2)
    assert torch.neuron.get_rng_state("neuron:2").tolist() == [9] + [0] * 15


def test_a_state_of_another_size_is_refused():
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.neuron.set_rng_state(torch.zeros(5, dtype=torch.uint8))


def test_fork_rng_restores_the_device():
    torch.neuron.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        torch.neuron.manual_seed(4)
    assert torch.neuron.initial_seed() == 3


# Streams and events


def test_all_streams_are_the_default_one_in_single_stream_mode():
    stream = torch.neuron.Stream(priority=-1)
    assert isinstance(stream, torch.Stream)
    assert stream == torch.neuron.default_stream() == torch.neuron.current_stream()
    assert stream.stream_id == 0


def test_streams_differ_with_host_cc(monkeypatch):
    monkeypatch.setenv("NEURON_RT_ENABLE_HOST_CC", "1")
    one, two = torch.neuron.Stream(), torch.neuron.Stream(device=1)
    assert one != two
    assert one.stream_id != 0
    assert two.device == torch.device("neuron:1")


def test_a_stream_takes_keywords_only():
    with pytest.raises(TypeError):
        torch.neuron.Stream(0)


def test_stream_context_restores_stream_and_device(monkeypatch):
    monkeypatch.setenv("NEURON_RT_ENABLE_HOST_CC", "1")
    stream = torch.neuron.Stream(device=1)
    with torch.neuron.stream(stream):
        assert torch.neuron.current_stream() == stream
        assert torch.neuron.current_device() == 1
    assert torch.neuron.current_device() == 0
    assert torch.neuron.current_stream(1) == torch.neuron.default_stream(1)


def test_no_stream_is_no_change():
    with torch.neuron.stream(None):
        torch.neuron.set_stream(None)
    assert torch.neuron.current_stream() == torch.neuron.default_stream()


def test_streams_wait_for_events_and_for_each_other():
    stream = torch.neuron.current_stream()
    event = torch.neuron.record_event()
    stream.wait_event(event)
    stream.wait_stream(torch.neuron.Stream())
    torch.neuron.wait_stream(stream)
    torch.neuron.wait_event(event)
    assert torch.neuron.query() is True


def test_record_returns_the_event():
    event = torch.neuron.Event()
    assert event.record() is event
    event.synchronize()
    assert event.query() is True


def test_elapsed_time_is_the_hosts_milliseconds_between_two_records():
    start = torch.neuron.Event(enable_timing=True).record()
    torch.ones(1000, 1000, device="neuron") @ torch.ones(1000, 1000, device="neuron")
    end = torch.neuron.Event(enable_timing=True).record()
    assert start.elapsed_time(end) > 0


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ({}, {"enable_timing": True}, "^Event was not created with timing enabled"),
        ({"enable_timing": True}, {}, "^End event was not created with timing enabled"),
    ],
)
def test_elapsed_time_without_timing_is_a_runtime_error(start, end, message):
    with pytest.raises(RuntimeError, match=message):
        torch.neuron.Event(**start).record().elapsed_time(torch.neuron.Event(**end).record())


def test_elapsed_time_of_an_event_never_recorded_is_a_runtime_error():
    start = torch.neuron.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match=r"^Event has not been recorded"):
        start.elapsed_time(torch.neuron.Event(enable_timing=True).record())


def test_another_devices_stream_is_refused():
    with pytest.raises(RuntimeError, match="Expected a Neuron stream"):
        torch.neuron.set_stream("stream")


# The stand-in's own forms


def test_the_standin_offers_classes_for_streams_and_events():
    import torch_neuronx

    assert isinstance(torch.neuron.Stream(), torch_neuronx.Stream)
    assert isinstance(torch.neuron.Event(), torch_neuronx.Event)
    with torch_neuronx.StreamContext(torch_neuronx.Stream()):
        pass


def test_operators_are_tracked_by_where_the_device_computes_them():
    import torch_neuronx

    x = torch.ones(2, 2, device="neuron")
    torch_neuronx.clear_op_tracking()
    torch.mm(x, x)
    x.argmax()
    torch.neuron.synchronize()
    assert "aten::mm" in torch_neuronx.get_executed_ops()
    assert torch_neuronx.get_fallback_ops() == ["aten::argmax"]
    torch_neuronx.clear_op_tracking()
    assert torch_neuronx.get_executed_ops() == torch_neuronx.get_fallback_ops() == []


# Activation that is already in force


def test_the_variables_of_this_process_are_inherited_by_its_children():
    from fresh_process import run

    assert run(
        "import torch, neuron_lab.autoload as a; a.autoload(); print(torch.neuron.device_count())",
        environ={"NEURON_LAB_DEVICE": "emulated", "NEURON_LAB_CORES": "2"},
    ) == ["2"]


def test_a_forked_child_of_an_initialised_parent_is_told_to_spawn():
    from fresh_process import run

    printed = run(
        """
        import os, neuron_lab, torch
        neuron_lab.activate()
        torch.ones(1, device="neuron")
        child = os.fork()
        if child == 0:
            torch.manual_seed(0)
            try:
                torch.neuron.init()
            except RuntimeError as error:
                print(torch.neuron._is_in_bad_fork(), torch.neuron.is_initialized(), error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    assert printed[0] == (
        "True False Cannot re-initialize Neuron runtime in forked subprocess. "
        "To use Neuron with multiprocessing, use the 'spawn' start method"
    )
