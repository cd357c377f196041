"""Tables 4 to 6: pretrained networks on CIFAR, trained alone and then a few epochs more as an ensemble."""
