import json
from pathlib import Path

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from agentrl.engine.tokens import Tokenizer
from agentrl.errors import ConfigError
from tests.engine.checkpoints import save_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(path, "chatml")
    return path


def test_encoding_equals_that_of_transformers_and_decodes_back(folder: Path) -> None:
    ours = Tokenizer.load(folder)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    parts = ["<|im_start|>", "<|im_end|>", "<tool_call>", " ", "\n", "the file", "é😀", "{}", "<|"]

    @given(st.lists(st.sampled_from(parts), max_size=12).map("".join))
    def same(text: str) -> None:
        for _ in range(2):  # the second time from memory
            ids = ours.encode(text)
            assert ids == theirs.encode(text, add_special_tokens=False)
            assert ours.decode(ids) == text

    same()


def test_specials_can_be_left_out_of_decoded_text(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder)
    ids = tokenizer.encode("<|im_start|>the<|im_end|>")
    assert tokenizer.decode(ids) == "<|im_start|>the<|im_end|>"
    assert tokenizer.decode(ids, specials=False) == "the"


def test_all_stop_tokens_of_all_files_are_known_once(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "chatml")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 0}))
    assert Tokenizer.load(tmp_path).eos == (2, 0)
    (tmp_path / "generation_config.json").unlink()
    assert Tokenizer.load(tmp_path).eos == (0, 2)


def test_what_is_missing_is_named_with_its_place_and_cure(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json is missing") as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert caught.value.help
    save_tokenizer(tmp_path, "chatml")
    (tmp_path / "chat_template.jinja").unlink()
    tokenizer = Tokenizer.load(tmp_path)
    with pytest.raises(ConfigError, match="no chat template") as caught:
        _ = tokenizer.template
    assert str(tmp_path) in caught.value.where
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("A", "A"),
        ([{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}], "T"),
        ([{"name": "default", "template": "D"}], "D"),
    ],
)
def test_the_template_is_also_found_in_the_tokenizer_config(
    tmp_path: Path, value: object, want: str
) -> None:
    save_tokenizer(tmp_path, "chatml")
    (tmp_path / "chat_template.jinja").unlink()
    settings = {"chat_template": value, "eos_token": {"content": "<|im_end|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.template == want
    assert tokenizer.eos == (2,)
