"""Ensembles of ConvNets on CIFAR: when diversity pays on images, and training from scratch."""
