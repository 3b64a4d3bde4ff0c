import torch
from transformers import AutoModelForCausalLM

from agentrl.engine.torch.model import load_model
from agentrl.learner.publish import LIVE, publish


def test_transformers_loads_a_published_folder_as_it_is(folder, tmp_path):
    model = load_model(folder)
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    weights = publish(model, 12, folder, tmp_path / "weights")
    assert weights.path.name == "v000012"
    theirs = AutoModelForCausalLM.from_pretrained(weights.path).state_dict()
    for name, parameter in model.named_parameters():
        assert torch.equal(theirs[name], parameter)


def test_everything_but_the_weights_comes_from_the_source(folder, tmp_path):
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"not ours")
    path = publish(load_model(folder), 1, folder, tmp_path / "weights").path
    names = {file.name for file in path.iterdir()}
    assert names == {"config.json", "tokenizer.json", "model.safetensors", LIVE}
    assert (path / "tokenizer.json").read_text() == (folder / "tokenizer.json").read_text()


def test_only_the_newest_versions_stay(folder, tmp_path):
    model, root = load_model(folder), tmp_path / "weights"
    for version in range(1, 5):
        publish(model, version, folder, root, keep=2)
    assert sorted(path.name for path in root.iterdir()) == ["v000003", "v000004"]


def test_publishing_a_version_again_replaces_it(folder, tmp_path):
    model, root = load_model(folder), tmp_path / "weights"
    publish(model, 1, folder, root)
    with torch.no_grad():
        model.model.norm.weight.mul_(2)
    path = publish(model, 1, folder, root).path
    assert torch.equal(load_model(path).model.norm.weight, model.model.norm.weight)
    assert [entry.name for entry in root.iterdir()] == ["v000001"]
