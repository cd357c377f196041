"""Make fine-tuned networks into a better ensemble, with torchvision's networks and your own DataLoader.

FOLDER/train and FOLDER/test hold a folder of images for each class: python better_ensemble.py FOLDER
"""

import copy
import sys

import torch
from torch.utils.data import DataLoader, Subset
from torchvision import datasets, transforms

from counterpoint import DiversityLoss, Ensemble, IndependentLoss, assess, fit
from counterpoint.vision import backbone, predict_logits, predict_proba

NETWORKS = ("resnet18", "mobilenet_v2", "efficientnet_b0")


def main(folder, names=NETWORKS, weights="imagenet", size=160, epochs=4):
    """Fine-tune, train on in two ways, choose by held-out images and assess the choice on the test images."""
    normalise = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    plain = transforms.Compose([transforms.Resize((size, size)), transforms.ToTensor(), normalise])
    mirrored = transforms.Compose([transforms.RandomHorizontalFlip(), plain])
    images, unmirrored = (datasets.ImageFolder(f"{folder}/train", view) for view in (mirrored, plain))
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    n_held_out = max(len(order) // 10, 1)
    tenth, rest = order[:n_held_out], order[n_held_out:]
    train = DataLoader(Subset(images, rest), min(64, len(rest)), shuffle=True, drop_last=True)
    held_out = DataLoader(Subset(unmirrored, tenth), 64)
    test = DataLoader(datasets.ImageFolder(f"{folder}/test", plain), 64)
    assert test.dataset.classes == images.classes, "train and test must hold the same classes"

    networks = [backbone(name, len(images.classes), weights=weights) for name in names]
    tuned = Ensemble(networks).to("cuda" if torch.cuda.is_available() else "cpu")
    # With networks that are fine-tuned already, leave this line out.
    fit(tuned, train, loss=IndependentLoss(), optimizer=lambda p: torch.optim.AdamW(p, 1e-3), epochs=epochs)

    found = {"as they are": tuned}  # which is hard to beat for networks that fit
    for loss in (IndependentLoss(), DiversityLoss()):
        # Both go on from here for as many epochs.
        ensemble = found[type(loss).__name__] = copy.deepcopy(tuned)
        adam = torch.optim.AdamW(ensemble.parameters(), 1e-4)
        fit(ensemble, train, loss=loss, optimizer=adam, epochs=epochs, validation=held_out)
    truth = torch.tensor(images.targets)[tenth]
    for way, ensemble in found.items():
        votes = predict_proba(ensemble, held_out).argmax(-1).cpu()
        found[way] = (votes == truth).float().mean().item(), ensemble
        print(f"{way}: {found[way][0]:.2%} of the held-out images")
    _, best = max(found.values(), key=lambda pair: pair[0])  # the test images have no say

    proba = predict_logits(best, test).softmax(-1).cpu().numpy()
    learners = [f"{place} {name}" for place, name in enumerate(names, 1)]
    return assess(test.dataset.targets, proba, voting=best.vote, learners=learners)


if __name__ == "__main__":
    print(main(sys.argv[1]))
