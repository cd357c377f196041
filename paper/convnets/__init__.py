"""Small ConvNets on CIFAR-10, many in one program: when diversity pays on images, and ensembles from scratch."""
