"""Volumes of the consumers of a ConsumerGroup: sources of files, their mount points, claims of each pod.

An allow-list with Kubernetes' own names. Not in it: `hostPath` and network file systems by address; claims and CSI
drivers provide these under the cluster's own control.
"""

# a field is a call with its shape and text

from dataclasses import dataclass
from typing import Final

from muster_operator.api.container import KEY, OPTIONAL
from muster_operator.api.fields import Record, Struct, prop, spec_field
from muster_operator.api.pod import LABEL_VALUE, NAME, QUANTITY
from muster_operator.api.quantity import QUANTITY_TEXT
from muster_operator.api.schema import Boolean, Integer, ListOf, MapOf, Rule, Text, choice

_ITEMS = ListOf(
    items=Struct((
        prop("key", KEY, "Key in the object.", required=True),
        prop("path", Text(max_length=512, min_length=1), "File name under the mount.", required=True),
        prop("mode", Integer(low=0, high=0o777), "Permissions."),
    )),
    max_items=50,
)  # fmt: skip
_MODE = prop("defaultMode", Integer(low=0, high=0o777), "Permissions of the files.")
VOLUME_NAME: Final = Text(max_length=63, min_length=1, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                    pattern_text="must be a lower-case label")  # fmt: skip
_CONFIG_MAP = Struct((prop("name", NAME, "Name of the ConfigMap.", required=True),
                      prop("items", _ITEMS, "Which keys; absent: all."), OPTIONAL))  # fmt: skip
_FIELD_FILES = ListOf(
    items=Struct((
        prop("path", Text(max_length=512, min_length=1), "File name under the mount.", required=True),
        prop("fieldRef", Struct((prop("fieldPath", KEY, "Such as metadata.labels.", required=True),)),
             "A field of the pod.", required=True),
        prop("mode", Integer(low=0, high=0o777), "Permissions."),
    )),
    max_items=20,
)  # fmt: skip
_TOKEN = Struct((
    prop("path", Text(max_length=512, min_length=1), "File name under the mount.", required=True),
    prop("audience", Text(max_length=1024), "Audience of the token; absent: the API server."),
    prop("expirationSeconds", Integer(low=600, high=2**31 - 1), "Lifetime, renewed before its end; absent: an hour."),
))  # fmt: skip
_PARTS = ("configMap", "secret", "downwardAPI", "serviceAccountToken")
_PROJECTED = Struct((
    prop(
        "sources",
        ListOf(
            items=Struct(
                (
                    prop("configMap", _CONFIG_MAP, "Keys of a ConfigMap."),
                    prop("secret", Struct((prop("name", NAME, "Name of the Secret.", required=True),
                                           prop("items", _ITEMS, "Which keys; absent: all."), OPTIONAL)),
                         "Keys of a Secret."),
                    prop("downwardAPI", Struct((prop("items", _FIELD_FILES, "Which fields."),)), "Fields of the pod."),
                    prop("serviceAccountToken", _TOKEN, "A token of the pod's service account."),
                ),
                rules=(
                    Rule(
                        cel="[has(self.configMap), has(self.secret), has(self.downwardAPI),"
                        " has(self.serviceAccountToken)].exists_one(given, given)",
                        message="each of `sources` must be exactly one of `configMap`, `secret`, `downwardAPI` and"
                        " `serviceAccountToken`",
                        holds=lambda source: sum(part in source for part in _PARTS) == 1,
                    ),
                ),
            ),
            max_items=20,
            min_items=1,
        ),
        "The sources, put into one folder.",
        required=True,
    ),
    _MODE,
))  # fmt: skip
_CSI = Struct((
    prop("driver", Text(max_length=63, min_length=1), "Name of the CSI driver.", required=True),
    prop("readOnly", Boolean(), "Mount for reading only."),
    prop("fsType", Text(max_length=63), "File system."),
    prop("volumeAttributes", MapOf(values=Text(max_length=4096), max_properties=50), "Attributes for the driver."),
    prop("nodePublishSecretRef", Struct((prop("name", NAME, "Name of the Secret.", required=True),)),
         "A Secret for the driver."),
))  # fmt: skip
_ACCESS = choice("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany")
_EPHEMERAL = Struct((
    prop(
        "volumeClaimTemplate",
        Struct((
            prop("metadata", Struct((
                prop("labels", MapOf(values=LABEL_VALUE, max_properties=20), "Labels of the claim."),
                prop("annotations", MapOf(values=Text(max_length=4096), max_properties=20), "Its annotations."),
            )), "Metadata of the claim."),
            prop("spec", Struct((
                prop("accessModes", ListOf(items=_ACCESS, max_items=4, min_items=1), "Access modes.",
                     required=True),
                prop("storageClassName", NAME, "Storage class; absent: the default one."),
                prop("resources", Struct((
                    prop("requests", Struct((prop("storage", QUANTITY, "Size.", required=True),)), "Requests.",
                         required=True),
                )), "Size.", required=True),
            )), "Spec of the claim.", required=True),
        )),
        "The claim that is created with the pod.",
        required=True,
    ),
))  # fmt: skip
_SOURCES = ("emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected", "csi", "ephemeral")
VOLUMES: Final = ListOf(
    items=Struct(
        (
            prop("name", VOLUME_NAME, "Name of the volume.", required=True),
            prop(
                "emptyDir",
                Struct((
                    prop("sizeLimit", QUANTITY, "Largest size."),
                    prop("medium", choice("Memory"), "Memory: a file system in memory."),
                )),
                "A folder that lives as long as the pod.",
            ),
            prop(
                "configMap",
                Struct((prop("name", NAME, "Name of the ConfigMap.", required=True),
                        prop("items", _ITEMS, "Which keys; absent: all."), _MODE, OPTIONAL)),
                "Keys of a ConfigMap as files.",
            ),
            prop(
                "secret",
                Struct((prop("secretName", NAME, "Name of the Secret.", required=True),
                        prop("items", _ITEMS, "Which keys; absent: all."), _MODE, OPTIONAL)),
                "Keys of a Secret as files.",
            ),
            prop(
                "persistentVolumeClaim",
                Struct((prop("claimName", NAME, "Name of the claim.", required=True),
                        prop("readOnly", Boolean(), "Mount for reading only."))),
                "A claim shared by all pods of the group.",
            ),
            prop("projected", _PROJECTED, "Several sources in one folder."),
            prop("csi", _CSI, "A volume that a CSI driver provides for the pod, such as secrets of a vault."),
            prop("ephemeral", _EPHEMERAL, "A claim that is created and deleted with each pod."),
        ),
        rules=(
            Rule(
                cel="[has(self.emptyDir), has(self.configMap), has(self.secret), has(self.persistentVolumeClaim),"
                " has(self.projected), has(self.csi), has(self.ephemeral)].exists_one(given, given)",
                message="a volume must have exactly one source",
                holds=lambda volume: sum(source in volume for source in _SOURCES) == 1,
            ),
        ),
    ),
    max_items=20,
    keys=("name",),
)  # fmt: skip
VOLUME_MOUNTS: Final = ListOf(
    items=Struct((
        prop("name", VOLUME_NAME, "Name of the volume.", required=True),
        prop("mountPath", Text(max_length=512, min_length=1), "Folder in the container.", required=True),
        prop("subPath", Text(max_length=512), "Part of the volume."),
        prop("readOnly", Boolean(), "Mount for reading only."),
    )),
    max_items=20,
    keys=("mountPath",),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """A claim per pod, kept as long as its ordinal exists: for state that is expensive to rebuild."""

    name: str = spec_field(VOLUME_NAME, "Name of the volume, for `volumeMounts`.", required=True)
    size: str = spec_field(
        Text(max_length=20, min_length=1, pattern=QUANTITY_TEXT, pattern_text="must be a quantity such as 10Gi"),
        "Size of each claim.",
        required=True,
    )
    storage_class_name: str | None = spec_field(NAME, "Storage class. Absent: the default one of the cluster.")
    access_mode: str = spec_field(choice("ReadWriteOnce", "ReadWriteOncePod"), "Access modes.", default="ReadWriteOnce")


CLAIM_TEMPLATES: Final = ListOf(items=Record(ClaimTemplate), max_items=5, keys=("name",))
