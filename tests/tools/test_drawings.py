"""The drawings of the documents are what the code draws of a pool that runs."""

from pathlib import Path

import pytest

from draw_gather import WANTED, gather
from draw_layers import LAYERS
from drawing import Drawing
from make_pictures import DRAWINGS, IMAGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_in_the_documents_is_what_the_code_draws(name):
    assert (IMAGES / name).read_text(encoding="utf-8") == DRAWINGS[name]().to_text(), "run: make pictures"


def test_the_gather_is_one_that_no_single_free_block_could_serve():
    before, after, new, _ = gather()
    assert before.largest < WANTED <= before.free
    assert after.free == before.free - WANTED
    assert new in after.used


def test_every_layer_is_a_place_in_the_repository():
    assert [place for layer in LAYERS for place in layer.places if not (ROOT / place).exists()] == []


def test_texts_of_a_drawing_are_escaped():
    drawing = Drawing(10, 10)
    drawing.text(1, 2, "<b> & 'c'", fill='"')
    assert '<text x="1" y="2" fill="&quot;">&lt;b&gt; &amp; \'c\'</text>' in drawing.to_text()
