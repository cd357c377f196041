"""Make fine-tuned networks into a better ensemble: torchvision's networks, a DataLoader of your own.

FOLDER/train and FOLDER/test hold a folder of images for each class: python better_ensemble.py FOLDER
"""

import copy
import sys

import torch
from torch.utils.data import DataLoader, Subset
from torchvision import datasets, transforms

from counterpoint import CorrelationLoss, Ensemble, IndependentLoss, assess, fit
from counterpoint.vision import backbone, predict_logits

NETWORKS = ("resnet18", "mobilenet_v2", "efficientnet_b0")


def loaders(folder, size):
    """Return the images to train on, to choose by and to test on."""
    normalise = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    plain = [transforms.Resize((size, size)), transforms.ToTensor(), normalise]
    mirrored = transforms.Compose([transforms.RandomHorizontalFlip(), *plain])
    train = datasets.ImageFolder(f"{folder}/train", mirrored)
    chosen_by = datasets.ImageFolder(f"{folder}/train", transforms.Compose(plain))
    test = datasets.ImageFolder(f"{folder}/test", transforms.Compose(plain))
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0)).tolist()
    tenth, rest = order[: len(order) // 10], order[len(order) // 10 :]
    batches = DataLoader(Subset(train, rest), min(64, len(rest)), shuffle=True, drop_last=True)
    return batches, DataLoader(Subset(chosen_by, tenth), 64), DataLoader(test, 64)


def main(folder, names=NETWORKS, weights="imagenet", size=160, epochs=4):
    """Fine-tune, train on in two ways, choose by held-out images and assess the choice on the test images."""
    train, held_out, test = loaders(folder, size)
    networks = [backbone(name, len(test.dataset.classes), weights=weights) for name in names]
    tuned = Ensemble(networks).to("cuda" if torch.cuda.is_available() else "cpu")
    # With networks that are fine-tuned already, leave this line out.
    fit(tuned, train, loss=IndependentLoss(), optimizer=lambda p: torch.optim.AdamW(p, 1e-3), epochs=epochs)

    found = []
    for loss in (IndependentLoss(), CorrelationLoss(diversity=0.5)):
        ensemble = copy.deepcopy(tuned)  # both go on from here for as many epochs
        adam = torch.optim.AdamW(ensemble.parameters(), 1e-4)
        history = fit(ensemble, train, loss=loss, optimizer=adam, epochs=epochs, validation=held_out)
        accuracy = history[history.best_epoch - 1]["val_vote_accuracy"]
        print(f"{loss}: {accuracy:.2%} of the held-out images")
        found.append((accuracy, ensemble))
    best = max(found, key=lambda pair: pair[0])[1]

    proba = predict_logits(best, test).softmax(-1).cpu().numpy()
    y = torch.cat([y for _, y in test]).numpy()
    return assess(y, proba, voting="soft", learners=names)


if __name__ == "__main__":
    print(main(sys.argv[1]))
