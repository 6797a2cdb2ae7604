"""transformers and accelerate on the device, with tiny random models: no network, no weights."""

import pytest
from fresh_process import run

TINY = """
from transformers import LlamaConfig, LlamaForCausalLM
config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
torch.manual_seed(0)
model = LlamaForCausalLM(config).eval()
"""


def test_libraries_imported_before_activation_see_the_device_afterwards():
    assert run(
        """
        import transformers, accelerate, torch
        from transformers.utils import is_torch_neuron_available, is_torch_bf16_gpu_available
        from accelerate.utils import is_neuron_available
        print(is_torch_neuron_available(), is_torch_bf16_gpu_available(), is_neuron_available())
        import neuron_lab
        neuron_lab.activate()
        print(is_torch_neuron_available(), is_torch_bf16_gpu_available(), is_neuron_available())
        print(is_torch_neuron_available(check_device=True), is_neuron_available(check_device=True))
        neuron_lab.deactivate()
        print(is_torch_neuron_available(), is_neuron_available())
        """
    ) == ["False False False", "True True True", "True True", "False False"]


def test_libraries_imported_after_activation_see_the_device():
    assert run(
        """
        import neuron_lab
        neuron_lab.activate()
        from transformers.utils import is_torch_neuron_available
        from accelerate import Accelerator
        print(is_torch_neuron_available(), Accelerator().device.type)
        """
    ) == ["True neuron"]


def test_from_pretrained_with_device_map_and_greedy_generation_equal_the_cpu(tmp_path):
    assert (
        run(
            f"""
        import torch, neuron_lab
        neuron_lab.activate()
        {TINY.replace(chr(10), chr(10) + " " * 8)}
        model.save_pretrained({str(tmp_path)!r})
        prompt = torch.tensor([[1, 5, 9, 2]])
        options = dict(max_new_tokens=12, do_sample=False, pad_token_id=0)
        expected = model.generate(prompt, **options)
        loaded = LlamaForCausalLM.from_pretrained({str(tmp_path)!r}, device_map="neuron")
        found = loaded.generate(prompt.to("neuron"), **options)
        print(loaded.device, found.device, torch.equal(found.cpu(), expected))
        """
        )[-1]
        == "neuron:0 neuron:0 True"
    )


@pytest.mark.slow
def test_trainer_runs_on_the_device(tmp_path):
    assert (
        run(
            f"""
        import torch, neuron_lab
        neuron_lab.activate()
        {TINY.replace(chr(10), chr(10) + " " * 8)}
        from transformers import Trainer, TrainingArguments
        rows = [dict(input_ids=torch.arange(8), labels=torch.arange(8)) for _ in range(8)]
        arguments = TrainingArguments(output_dir={str(tmp_path)!r}, max_steps=3, bf16=True, report_to=[],
                                      per_device_train_batch_size=2, gradient_checkpointing=True,
                                      save_strategy="no", disable_tqdm=True)
        trainer = Trainer(model=model, args=arguments, train_dataset=rows)
        result = trainer.train()
        print(arguments.device, trainer.model.device, result.global_step, result.training_loss > 0)
        """
        )[-1]
        == "neuron:0 neuron:0 3 True"
    )


def test_accelerate_saves_and_loads_the_devices_random_state(tmp_path):
    assert (
        run(
            f"""
        import torch, neuron_lab
        neuron_lab.activate()
        from accelerate import Accelerator
        accelerator = Accelerator()
        model = accelerator.prepare(torch.nn.Linear(4, 4))
        torch.neuron.manual_seed_all(5)
        accelerator.save_state({str(tmp_path)!r})
        torch.neuron.manual_seed_all(6)
        accelerator.load_state({str(tmp_path)!r})
        print(torch.neuron.initial_seed(), next(model.parameters()).device)
        """
        )[-1]
        == "5 neuron:0"
    )
