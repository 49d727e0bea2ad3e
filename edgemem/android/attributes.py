"""Android's own attributes that manifests have, with their numbers and formats, and its own resources by name.

The numbers are part of Android's interface and never change. They are those of `aapt dump --values resources` for the
framework of Android 10; those that came later are named in comments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ATTRIBUTES",
    "BOOLEAN",
    "COLOR",
    "ENUMERATION",
    "FLAGS",
    "FLOAT",
    "INTEGER",
    "NAMES",
    "REFERENCE",
    "RESOURCES",
    "STRING",
    "Known",
]

# What a value may be; formats are sums of them.
REFERENCE: Final = 0x1
STRING: Final = 0x2
INTEGER: Final = 0x4
BOOLEAN: Final = 0x8
COLOR: Final = 0x10
FLOAT: Final = 0x20
ENUMERATION: Final = 0x10000
FLAGS: Final = 0x20000


@dataclass(frozen=True, slots=True)
class Known:
    """An attribute of Android: its number, its format, and the values of the names that it may have."""

    number: int
    format: int
    names: Mapping[str, int] = field(default_factory=dict)


_BY_FORMAT: Final = {
    REFERENCE: {
        "theme": 0x01010000,
        "icon": 0x01010002,
        "description": 0x01010020,
        "resource": 0x01010025,
        "logo": 0x010102BE,
        "banner": 0x010103F2,
        "networkSecurityConfig": 0x01010527,
        "roundIcon": 0x0101052C,
        "dataExtractionRules": 0x0101063E,  # Android 12
    },
    STRING: {
        "name": 0x01010003,
        "manageSpaceActivity": 0x01010004,
        "permission": 0x01010006,
        "readPermission": 0x01010007,
        "writePermission": 0x01010008,
        "permissionGroup": 0x0101000A,
        "sharedUserId": 0x0101000B,
        "process": 0x01010011,
        "taskAffinity": 0x01010012,
        "authorities": 0x01010018,
        "targetPackage": 0x01010021,
        "mimeType": 0x01010026,
        "scheme": 0x01010027,
        "host": 0x01010028,
        "port": 0x01010029,
        "path": 0x0101002A,
        "pathPrefix": 0x0101002B,
        "pathPattern": 0x0101002C,
        "targetActivity": 0x01010202,
        "versionName": 0x0101021C,
        "backupAgent": 0x0101027F,
        "parentActivityName": 0x010103A7,
        "requiredAccountType": 0x010103D6,
        "requiredFeature": 0x01010554,
        "requiredNotFeature": 0x01010555,
        "compileSdkVersionCodename": 0x01010573,
        "appComponentFactory": 0x0101057A,
        "zygotePreloadName": 0x0101059D,
    },
    REFERENCE | STRING: {
        "label": 0x01010001,
    },
    INTEGER: {
        "initOrder": 0x0101001A,
        "priority": 0x0101001C,
        "order": 0x010101EA,
        "versionCode": 0x0101021B,
        "maxSdkVersion": 0x01010271,
        "glEsVersion": 0x01010281,
        "requiresSmallestWidthDp": 0x01010364,
        "maxRecents": 0x01010446,
        "version": 0x01010519,
        "compileSdkVersion": 0x01010572,
        "versionCodeMajor": 0x01010576,
    },
    STRING | INTEGER: {
        "minSdkVersion": 0x0101020C,
        "targetSdkVersion": 0x01010270,
    },
    BOOLEAN: {
        "allowClearUserData": 0x01010005,
        "hasCode": 0x0101000C,
        "persistent": 0x0101000D,
        "enabled": 0x0101000E,
        "debuggable": 0x0101000F,
        "exported": 0x01010010,
        "multiprocess": 0x01010013,
        "finishOnTaskLaunch": 0x01010014,
        "clearTaskOnLaunch": 0x01010015,
        "stateNotNeeded": 0x01010016,
        "excludeFromRecents": 0x01010017,
        "syncable": 0x01010019,
        "grantUriPermissions": 0x0101001B,
        "handleProfiling": 0x01010022,
        "functionalTest": 0x01010023,
        "alwaysRetainTaskState": 0x01010203,
        "allowTaskReparenting": 0x01010204,
        "noHistory": 0x0101022D,
        "anyDensity": 0x0101026C,
        "testOnly": 0x01010272,
        "allowBackup": 0x01010280,
        "smallScreens": 0x01010284,
        "normalScreens": 0x01010285,
        "largeScreens": 0x01010286,
        "resizeable": 0x0101028D,
        "required": 0x0101028E,
        "killAfterRestore": 0x0101029C,
        "vmSafeMode": 0x010102B8,
        "restoreAnyVersion": 0x010102BA,
        "xlargeScreens": 0x010102BF,
        "immersive": 0x010102C0,
        "hardwareAccelerated": 0x010102D3,
        "largeHeap": 0x0101035A,
        "stopWithTask": 0x0101036A,
        "isolatedProcess": 0x010103A9,
        "supportsRtl": 0x010103AF,
        "singleUser": 0x010103BF,
        "showOnLockScreen": 0x010103C9,
        "isGame": 0x010103F4,
        "autoRemoveFromRecents": 0x01010447,
        "fullBackupOnly": 0x01010473,
        "relinquishTaskIdentity": 0x01010476,
        "extractNativeLibs": 0x010104EA,
        "usesCleartextTraffic": 0x010104EC,
        "autoVerify": 0x010104EE,
        "showForAllUsers": 0x010104EF,
        "resizeableActivity": 0x010104F6,
        "supportsPictureInPicture": 0x010104F7,
        "directBootAware": 0x01010505,
        "externalService": 0x0101050E,
        "visibleToInstantApps": 0x01010531,
        "showWhenLocked": 0x01010569,
        "turnScreenOn": 0x0101056A,
        "hasFragileUserData": 0x0101059A,
        "useEmbeddedDex": 0x0101059E,
        "allowAudioPlaybackCapture": 0x01010601,
        "requestLegacyExternalStorage": 0x01010603,
        "enableOnBackInvokedCallback": 0x0101066C,  # Android 13
    },
    REFERENCE | BOOLEAN: {
        "fullBackupContent": 0x010104EB,
    },
    FLOAT: {
        "maxAspectRatio": 0x01010560,
        "minAspectRatio": 0x0101059B,
    },
    STRING | INTEGER | BOOLEAN | COLOR | FLOAT: {
        "value": 0x01010024,
    },
    ENUMERATION: {
        "launchMode": 0x0101001D,
        "screenOrientation": 0x0101001E,
        "installLocation": 0x010102B7,
        "appCategory": 0x01010545,
        "colorMode": 0x0101054A,
    },
    FLAGS: {
        "configChanges": 0x0101001F,
        "windowSoftInputMode": 0x0101022B,
        "foregroundServiceType": 0x01010599,
    },
}

_NAMES: Final[dict[str, dict[str, int]]] = {
    "appCategory": {
        "game": 0,
        "audio": 1,
        "video": 2,
        "image": 3,
        "social": 4,
        "news": 5,
        "maps": 6,
        "productivity": 7,
    },
    "colorMode": {
        "default": 0,
        "wideColorGamut": 1,
        "hdr": 2,
    },
    "configChanges": {
        "mcc": 0x1,
        "mnc": 0x2,
        "locale": 0x4,
        "touchscreen": 0x8,
        "keyboard": 0x10,
        "keyboardHidden": 0x20,
        "navigation": 0x40,
        "orientation": 0x80,
        "screenLayout": 0x100,
        "uiMode": 0x200,
        "screenSize": 0x400,
        "smallestScreenSize": 0x800,
        "density": 0x1000,
        "layoutDirection": 0x2000,
        "colorMode": 0x4000,
        "fontScale": 0x40000000,
    },
    "foregroundServiceType": {
        "dataSync": 0x1,
        "mediaPlayback": 0x2,
        "phoneCall": 0x4,
        "location": 0x8,
        "connectedDevice": 0x10,
        "mediaProjection": 0x20,
    },
    "installLocation": {
        "auto": 0,
        "internalOnly": 1,
        "preferExternal": 2,
    },
    "launchMode": {
        "standard": 0,
        "singleTop": 1,
        "singleTask": 2,
        "singleInstance": 3,
    },
    "screenOrientation": {
        "landscape": 0,
        "portrait": 1,
        "user": 2,
        "behind": 3,
        "sensor": 4,
        "nosensor": 5,
        "sensorLandscape": 6,
        "sensorPortrait": 7,
        "reverseLandscape": 8,
        "reversePortrait": 9,
        "fullSensor": 10,
        "userLandscape": 11,
        "userPortrait": 12,
        "fullUser": 13,
        "locked": 14,
        "unspecified": -1,
    },
    "windowSoftInputMode": {
        "adjustUnspecified": 0x0,
        "stateUnspecified": 0x0,
        "stateUnchanged": 0x1,
        "stateHidden": 0x2,
        "stateAlwaysHidden": 0x3,
        "stateVisible": 0x4,
        "stateAlwaysVisible": 0x5,
        "adjustResize": 0x10,
        "adjustPan": 0x20,
        "adjustNothing": 0x30,
    },
}

ATTRIBUTES: Final = {
    name: Known(number, form, _NAMES.get(name, {}))
    for form, numbers in _BY_FORMAT.items()
    for name, number in numbers.items()
}
NAMES: Final = {known.number: name for name, known in ATTRIBUTES.items()}

# What a reference such as `@android:style/Theme.Material` stands for.
RESOURCES: Final = {
    "style/Theme": 0x01030005,
    "style/Theme.NoTitleBar": 0x01030006,
    "style/Theme.NoTitleBar.Fullscreen": 0x01030007,
    "style/Theme.Black": 0x01030008,
    "style/Theme.Black.NoTitleBar": 0x01030009,
    "style/Theme.Black.NoTitleBar.Fullscreen": 0x0103000A,
    "style/Theme.Light": 0x0103000C,
    "style/Theme.Light.NoTitleBar": 0x0103000D,
    "style/Theme.Light.NoTitleBar.Fullscreen": 0x0103000E,
    "style/Theme.DeviceDefault": 0x01030128,
    "style/Theme.DeviceDefault.NoActionBar": 0x01030129,
    "style/Theme.DeviceDefault.NoActionBar.Fullscreen": 0x0103012A,
    "style/Theme.DeviceDefault.Light": 0x0103012B,
    "style/Theme.DeviceDefault.Light.NoActionBar": 0x0103012C,
    "style/Theme.DeviceDefault.Light.NoActionBar.Fullscreen": 0x0103012D,
    "style/Theme.Material": 0x01030224,
    "style/Theme.Material.NoActionBar": 0x0103022E,
    "style/Theme.Material.NoActionBar.Fullscreen": 0x0103022F,
    "style/Theme.Material.Light": 0x01030237,
    "style/Theme.Material.Light.NoActionBar": 0x01030241,
    "style/Theme.Material.Light.NoActionBar.Fullscreen": 0x01030242,
    "drawable/ic_menu_camera": 0x01080037,
    "drawable/ic_menu_gallery": 0x0108003F,
    "drawable/ic_menu_info_details": 0x01080041,
    "drawable/ic_menu_slideshow": 0x01080053,
    "drawable/ic_menu_view": 0x01080057,
    "drawable/sym_def_app_icon": 0x01080093,
}
