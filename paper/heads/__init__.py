"""``image-heads``: several heads on one pretrained trunk, frozen or fine-tuned, against one head of the same size."""
