import math
import sys

import pytest

from counterpoint._extras import import_extra


def test_a_module_that_is_there_is_returned():
    assert import_extra("math", "train") is math


def test_a_missing_package_is_one_sentence_with_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    message = (
        r"^`torchvision` is needed here; "
        r'install it with: pip install "counterpoint\[vision\]"\.$'
    )
    with pytest.raises(ImportError, match=message):
        import_extra("torchvision.datasets", "vision")


def test_a_package_that_does_not_load_beside_the_others_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / "mismatched.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    message = (
        r"^`mismatched` is installed but cannot be imported \(operator nms does not exist\); "
        r"it and torch must be builds that belong together: install both again, for the same device and from the same "
        r"index\.$"
    )
    with pytest.raises(ImportError, match=message):
        import_extra("mismatched.models", "vision")


def test_a_package_that_is_broken_inside_speaks_for_itself(monkeypatch, tmp_path):
    (tmp_path / "half_installed.py").write_text("import absent_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        import_extra("half_installed", "vision")
