"""The fifteen tables of the DECORATE study and where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DATASETS", "Source"]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Attributes
    ----------
    title : str
        Its title in the UCI Machine Learning Repository.
    creators : str
        Who created or donated it.
    uci_id : int
        Its number in the UCI Machine Learning Repository.
    openml_id : int
        The number of the same table on OpenML.
    embedded : bool
        Whether the package contains it.

    Examples
    --------
    >>> from counterpoint.datasets import DATASETS
    >>> DATASETS["iris"].url
    'https://archive.ics.uci.edu/dataset/53'
    """

    title: str
    creators: str
    uci_id: int
    openml_id: int
    embedded: bool = False

    @property
    def url(self) -> str:
        """Its page in the UCI Machine Learning Repository."""
        return f"https://archive.ics.uci.edu/dataset/{self.uci_id}"

    @property
    def citation(self) -> str:
        """A citation of one line, with the licence."""
        return f"{self.title}. {self.creators}. UCI Machine Learning Repository, {self.url} (CC BY 4.0)."


DATASETS: Mapping[str, Source] = MappingProxyType(
    {
        "anneal": Source("Annealing", "David Sterling and Wray Buntine", 3, 2),
        "audiology": Source("Audiology (Standardized)", "Bruce Porter and Ross Quinlan", 8, 7),
        "autos": Source("Automobile", "Jeffrey C. Schlimmer", 10, 9),
        "breast-w": Source(
            "Breast Cancer Wisconsin (Original)",
            "William H. Wolberg, University of Wisconsin Hospitals, Madison",
            15,
            15,
            embedded=True,
        ),
        # OpenML's 25 is the same study with the columns left out here.
        "colic": Source("Horse Colic", "Mary McLeish and Matt Cecile", 47, 27),
        "credit-a": Source("Credit Approval", "J. Ross Quinlan", 27, 29),
        "glass": Source("Glass Identification", "B. German", 42, 41, embedded=True),
        "heart-c": Source(
            "Heart Disease (Cleveland)",
            "Andras Janosi, William Steinbrunn, Matthias Pfisterer and Robert Detrano",
            45,
            49,
        ),
        "hepatitis": Source("Hepatitis", "Gail Gong", 46, 55),
        "iris": Source("Iris", "R. A. Fisher", 53, 61, embedded=True),
        "labor": Source("Labor Relations", "Stan Matwin", 56, 4, embedded=True),
        "lymph": Source(
            "Lymphography",
            "M. Zwitter and M. Soklic, Institute of Oncology, University Medical Centre, Ljubljana",
            63,
            10,
        ),
        "segment": Source(
            "Image Segmentation",
            "Vision Group, University of Massachusetts",
            50,
            36,
            embedded=True,
        ),
        "soybean": Source("Soybean (Large)", "R. S. Michalski and R. L. Chilausky", 90, 42, embedded=True),
        "splice": Source(
            "Molecular Biology (Splice-junction Gene Sequences)",
            "G. Towell, M. Noordewier and J. Shavlik",
            69,
            46,
        ),
    }
)
