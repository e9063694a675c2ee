"""How many images per second does each transform of the public table make on one thread, compared with other libraries?

Augmentation libraries are compared with this table. The calls are timed on decoded uint8 RGB images, one after another;
torchvision and kornia get tensors in their own layout, DALI gets a batch in a pipeline with one thread.

    python benchmarks/transforms.py [--photographs FOLDER] [resize rotate ...]

Without a folder of photographs the images are drawn; the names are the rows to measure, or parts of the names of several.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, spread, start, table, verdicts, with_earlier

HEIGHT, WIDTH, IMAGES = 375, 500, 8
SECONDS = 0.15  # of a repetition
SETTINGS: dict[str, str] = {"photographs": ""}


def photographs() -> list[np.ndarray]:
    """The images that the parent has cut out of photographs; drawn ones if the parent got no photographs."""
    return list(np.load(SETTINGS["photographs"])) if SETTINGS["photographs"] else drawn()


def cut_out(folder: str) -> list[np.ndarray]:
    """Random parts of the first photographs in a folder that are large enough."""
    from PIL import Image

    rng = np.random.default_rng(0)
    found: list[np.ndarray] = []
    for path in sorted(Path(folder).glob("*.jpg")):
        if len(found) == IMAGES:
            break
        whole = np.asarray(Image.open(path).convert("RGB"))
        if whole.shape[0] < HEIGHT or whole.shape[1] < WIDTH:
            continue
        y, x = (int(rng.integers(0, extent - size + 1)) for extent, size in zip(whole.shape, (HEIGHT, WIDTH)))
        found.append(np.ascontiguousarray(whole[y : y + HEIGHT, x : x + WIDTH]))
    if not found:
        raise SystemExit(f"no photograph of at least {WIDTH} x {HEIGHT} pixels: {folder}/*.jpg")
    return found


def drawn() -> list[np.ndarray]:
    """Smooth shapes with edges and noise on them."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH] / HEIGHT
    found = []
    for a, b, c in rng.random((IMAGES, 3)):
        wave = (
            np.stack([np.sin(7 * (x * a + y * b) + k) for k in range(3)], -1)
            + 0.5 * ((x - a) ** 2 + (y - b) ** 2 < c / 9)[..., None]
        )
        found.append(np.clip(120 + 70 * wave + rng.normal(0, 6, wave.shape), 0, 255).astype(np.uint8))
    return found


def pipeflow():
    from pipeflow import fn, types

    taps = np.full((5, 5), 1 / 25, np.float32)
    turn = np.array([[np.cos(0.44), -np.sin(0.44), 20], [np.sin(0.44), np.cos(0.44), 20]], np.float32) / 1.5
    shear = np.array([[1, 0.18, 0], [0, 1, 0]], np.float32)
    corners = {"source": [0, 0, 500, 0, 500, 375, 0, 375], "target": [30, 20, 470, 30, 480, 350, 20, 340]}
    matrix = fn.transforms.perspective(**corners)
    levels = np.clip(np.rint(255 * (np.arange(256) / 255) ** 1.2), 0, 255).tolist()
    gamma = {"keys": list(range(256)), "values": levels, "dtype": types.UINT8}
    return {
        "Resize": lambda x: fn.resize(x, size=(512, 512), antialias=False),
        "RandomCrop224": lambda x: fn.crop(x, crop=(224, 224), crop_pos_x=0.7, crop_pos_y=0.3),
        "RandomResizedCrop": lambda x: fn.random_resized_crop(x, size=(224, 224), antialias=False, key=3),
        "CenterCrop224": lambda x: fn.crop(x, crop=(224, 224)),
        "HorizontalFlip": lambda x: fn.flip(x),
        "VerticalFlip": lambda x: fn.flip(x, horizontal=False, vertical=True),
        "Pad": lambda x: fn.slice(
            x, start=(-10, -10), shape=(HEIGHT + 20, WIDTH + 20), axes=(0, 1), out_of_bounds_policy="pad"
        ),
        "Rotate": lambda x: fn.rotate(x, angle=31.0, keep_size=True, interp_type=types.INTERP_NN, fill_value=0),
        "Affine": lambda x: fn.warp_affine(x, matrix=turn, fill_value=0),
        "Shear": lambda x: fn.warp_affine(x, matrix=shear, fill_value=0),
        "Perspective": lambda x: fn.warp_perspective(x, matrix, inverse_map=False, fill_value=0),
        "Elastic": lambda x: fn.remap(x, *fn.distortions.elastic(x, alpha=50.0, sigma=5.0, key=5)),
        "OpticalDistortion": lambda x: fn.remap(x, *fn.distortions.optical(x, strength=0.5)),
        "ThinPlateSpline": lambda x: fn.remap(x, *fn.distortions.thin_plate(x, points=4, scale=0.1, key=5)),
        "ColorJitter": lambda x: fn.color_twist(x, brightness=1.4, contrast=1.3, saturation=1.4, hue=20.0),
        "ChannelShuffle": lambda x: fn.channel_shuffle(x, key=2),
        "ChannelDropout": lambda x: fn.channel_dropout(x, key=2),
        "Grayscale": lambda x: fn.grayscale(x),
        "GaussianBlur": lambda x: fn.gaussian_blur(x, sigma=2.0, window_size=5),
        "GaussianNoise": lambda x: fn.noise.gaussian(x, stddev=112.0, key=4),
        "Invert": lambda x: fn.invert(x),
        "Posterize": lambda x: fn.posterize(x, bits=4),
        "Solarize": lambda x: fn.solarize(x, threshold=128.0),
        "Sharpen": lambda x: fn.sharpen(x, alpha=0.35),
        "AutoContrast": lambda x: fn.autocontrast(x),
        "Equalize": lambda x: fn.equalize(x),
        "Erasing": lambda x: fn.erase(x, anchor=(50.0, 60.0), shape=(120.0, 150.0), axes=(0, 1), fill_value=0.0),
        "JpegCompression": lambda x: fn.jpeg_compression_distortion(x, quality=50),
        "RandomGamma": lambda x: fn.lookup_table(x, **gamma),
        "MedianBlur": lambda x: fn.median_blur(x, window_size=(5, 5)),
        "MotionBlur": lambda x: fn.motion_blur(x, size=5, angle=35.0),
        "CLAHE": lambda x: fn.clahe(x, tiles_x=8, tiles_y=8, clip_limit=3.0),
        "Brightness": lambda x: fn.brightness(x, brightness=1.2),
        "Contrast": lambda x: fn.contrast(x, contrast=1.2),
        "Blur": lambda x: fn.filter(x, taps),
        "Hue": lambda x: fn.hue(x, hue=20.0),
        "Saturation": lambda x: fn.saturation(x, saturation=0.5),
        "SaltAndPepper": lambda x: fn.noise.salt_and_pepper(x, prob=0.03, key=4),
        "Transpose": lambda x: fn.transpose(x, perm=[1, 0, 2]),
        "RGBShift": lambda x: fn.channel_shift(x, shift=(100.0, -60.0, 30.0)),
        "PlankianJitter": lambda x: fn.planckian_jitter(x, key=3),
        "LinearIllumination": lambda x: fn.illumination.linear(x, gain=0.1, angle=30.0),
        "CornerIllumination": lambda x: fn.illumination.corner(x, gain=0.1),
        "GaussianIllumination": lambda x: fn.illumination.gaussian(x, gain=0.1),
        "PlasmaBrightness": lambda x: fn.plasma.brightness(x, key=3),
        "PlasmaContrast": lambda x: fn.plasma.contrast(x, key=3),
        "PlasmaShadow": lambda x: fn.plasma.shadow(x, key=3),
        "Rain": lambda x: fn.weather.rain(x, width=5, length=20, density=0.001, key=3),
        "Snow": lambda x: fn.weather.snow(x, point=0.5),
        "PhotoMetricDistort": lambda x: fn.photometric_distort(x, key=3),
        "ColorJiggle": lambda x: fn.color_jitter(
            x, brightness=(0.875, 1.125), contrast=(0.5, 1.5), saturation=(0.5, 1.5), key=3
        ),
        "LongestMaxSize": lambda x: fn.resize(x, resize_longer=512, antialias=False),
        "SmallestMaxSize": lambda x: fn.resize(x, resize_shorter=512, antialias=False),
        "RandomRotate90": lambda x: fn.rotate90(x, times=1),
        "EnhanceEdge": lambda x: fn.enhance(x, mode="edges", alpha=0.75),
        "EnhanceDetail": lambda x: fn.enhance(x, mode="details", alpha=0.75),
        "RandomJigsaw": lambda x: fn.jigsaw(x, grid=(4, 4), key=3),
        "UnsharpMask": lambda x: fn.unsharp_mask(x, sigma=1.0, amount=0.35, threshold=10.0),
    }, lambda x: x


def opencv():
    import cv2

    cv2.setNumThreads(1)
    turn = cv2.getRotationMatrix2D((250, 187), 25, 1.5)
    rotation = cv2.getRotationMatrix2D((250, 187), 31, 1)
    shear = np.array([[1, 0.18, 0], [0, 1, 0]], np.float32)
    ends = [
        np.array(x, np.float32).reshape(4, 2)
        for x in ([0, 0, 500, 0, 500, 375, 0, 375], [30, 20, 470, 30, 480, 350, 20, 340])
    ]
    matrix = cv2.getPerspectiveTransform(*ends)
    levels = np.clip(np.rint(255 * (np.arange(256) / 255) ** 1.2), 0, 255).astype(np.uint8)
    clahe = cv2.createCLAHE(3.0, (8, 8))
    sharp = np.array([[-1, -1, -1], [-1, 9, -1], [-1, -1, -1]]) * 0.35 + np.pad([[0.65]], 1)
    edges = np.array([[-1, -1, -1], [-1, 10, -1], [-1, -1, -1]]) / 2 * 0.75 + np.pad([[0.25]], 1)
    details = np.array([[0, -1, 0], [-1, 10, -1], [0, -1, 0]]) / 6 * 0.75 + np.pad([[0.25]], 1)
    line = np.zeros((5, 5))
    line[range(5), range(5)] = 0.2
    camera = np.array([[WIDTH, 0, WIDTH / 2], [0, HEIGHT, HEIGHT / 2], [0, 0, 1]], np.float32)
    lens = np.array([0.5, 0, 0, 0], np.float32)
    small = WIDTH * 512 // HEIGHT, HEIGHT * 512 // WIDTH

    def equalize(x):
        return cv2.merge([cv2.equalizeHist(plane) for plane in cv2.split(x)])

    def spread_lightness(x):
        lab = cv2.cvtColor(x, cv2.COLOR_RGB2LAB)
        lab[..., 0] = clahe.apply(lab[..., 0])
        return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)

    def distort(x):  # the maps are made for every image, as in the other libraries, which draw the strength
        maps = cv2.initUndistortRectifyMap(camera, lens, None, camera, (WIDTH, HEIGHT), cv2.CV_16SC2)
        return cv2.remap(x, *maps, cv2.INTER_LINEAR)

    def compress(x):
        return cv2.imdecode(cv2.imencode(".jpg", x, [cv2.IMWRITE_JPEG_QUALITY, 50])[1], cv2.IMREAD_COLOR)

    return (
        {
            "Resize": lambda x: cv2.resize(x, (512, 512)),
            "HorizontalFlip": lambda x: cv2.flip(x, 1),
            "VerticalFlip": lambda x: cv2.flip(x, 0),
            "Pad": lambda x: cv2.copyMakeBorder(x, 10, 10, 10, 10, cv2.BORDER_CONSTANT),
            "Rotate": lambda x: cv2.warpAffine(x, rotation, (WIDTH, HEIGHT), flags=cv2.INTER_NEAREST),
            "Affine": lambda x: cv2.warpAffine(x, turn, (WIDTH, HEIGHT)),
            "Shear": lambda x: cv2.warpAffine(x, shear, (WIDTH, HEIGHT)),
            "Perspective": lambda x: cv2.warpPerspective(x, matrix, (WIDTH, HEIGHT)),
            "ChannelShuffle": lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2BGR),
            "Grayscale": lambda x: cv2.cvtColor(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB),
            "GaussianBlur": lambda x: cv2.GaussianBlur(x, (5, 5), 2.0),
            "Invert": cv2.bitwise_not,
            "Sharpen": lambda x: cv2.filter2D(x, -1, sharp),
            "Equalize": equalize,
            "JpegCompression": compress,
            "RandomGamma": lambda x: cv2.LUT(x, levels),
            "MedianBlur": lambda x: cv2.medianBlur(x, 5),
            "CLAHE": spread_lightness,
            "Brightness": lambda x: cv2.convertScaleAbs(x, alpha=1.2),
            "Contrast": lambda x: cv2.convertScaleAbs(x, alpha=1.2, beta=-25.6),
            "Blur": lambda x: cv2.blur(x, (5, 5)),
            "OpticalDistortion": distort,
            "RGBShift": lambda x: cv2.add(x, (100, -60, 30, 0)),
            "MotionBlur": lambda x: cv2.filter2D(x, -1, line),
            "LongestMaxSize": lambda x: cv2.resize(x, (512, small[1])),
            "SmallestMaxSize": lambda x: cv2.resize(x, (small[0], 512)),
            "RandomRotate90": lambda x: cv2.rotate(x, cv2.ROTATE_90_COUNTERCLOCKWISE),
            "EnhanceEdge": lambda x: cv2.filter2D(x, -1, edges),
            "EnhanceDetail": lambda x: cv2.filter2D(x, -1, details),
            "CenterCrop224": lambda x: x[75:299, 138:362].copy(),
            "RandomCrop224": lambda x: x[45:269, 193:417].copy(),
            "Transpose": cv2.transpose,
        },
        lambda x: x,
    )


def pillow():
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps

    nearest = Image.Resampling.NEAREST
    return {
        "Resize": lambda x: x.resize((512, 512), Image.Resampling.BILINEAR),
        "CenterCrop224": lambda x: x.crop((138, 75, 362, 299)),
        "HorizontalFlip": lambda x: x.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        "VerticalFlip": lambda x: x.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        "Pad": lambda x: ImageOps.expand(x, 10),
        "Rotate": lambda x: x.rotate(31, nearest),
        "Affine": lambda x: x.rotate(25, Image.Resampling.BILINEAR, translate=(20, 20)),
        "Grayscale": lambda x: x.convert("L").convert("RGB"),
        "GaussianBlur": lambda x: x.filter(ImageFilter.GaussianBlur(2)),
        "Invert": ImageOps.invert,
        "Posterize": lambda x: ImageOps.posterize(x, 4),
        "Solarize": lambda x: ImageOps.solarize(x, 128),
        "AutoContrast": ImageOps.autocontrast,
        "Equalize": ImageOps.equalize,
        "MedianBlur": lambda x: x.filter(ImageFilter.MedianFilter(5)),
        "Brightness": lambda x: ImageEnhance.Brightness(x).enhance(1.2),
        "Contrast": lambda x: ImageEnhance.Contrast(x).enhance(1.2),
        "Blur": lambda x: x.filter(ImageFilter.BoxBlur(2)),
        "Saturation": lambda x: ImageEnhance.Color(x).enhance(0.5),
        "Transpose": lambda x: x.transpose(Image.Transpose.TRANSPOSE),
        "UnsharpMask": lambda x: x.filter(ImageFilter.UnsharpMask(1, 35, 10)),
        "LongestMaxSize": lambda x: x.resize((512, 384), Image.Resampling.BILINEAR),
        "SmallestMaxSize": lambda x: x.resize((682, 512), Image.Resampling.BILINEAR),
        "RandomRotate90": lambda x: x.transpose(Image.Transpose.ROTATE_90),
        "EnhanceEdge": lambda x: Image.blend(x, x.filter(ImageFilter.EDGE_ENHANCE), 0.75),
        "EnhanceDetail": lambda x: Image.blend(x, x.filter(ImageFilter.DETAIL), 0.75),
    }, Image.fromarray


def albumentations():
    import albumentations as a
    import cv2

    cv2.setNumThreads(1)
    made = {
        "Resize": a.Resize(512, 512, p=1),
        "RandomCrop224": a.RandomCrop(224, 224, p=1),
        "RandomResizedCrop": a.RandomResizedCrop((224, 224), p=1),
        "CenterCrop224": a.CenterCrop(224, 224, p=1),
        "HorizontalFlip": a.HorizontalFlip(p=1),
        "VerticalFlip": a.VerticalFlip(p=1),
        "Pad": a.Pad(10, p=1),
        "Rotate": a.Rotate((31, 31), interpolation=cv2.INTER_NEAREST, p=1),
        "Affine": a.Affine(rotate=(25, 25), scale=(1.5, 1.5), translate_px=(20, 20), shear=(10, 15), p=1),
        "Shear": a.Affine(shear={"x": (10, 10), "y": (0, 0)}, p=1),
        "Perspective": a.Perspective((0.05, 0.1), p=1),
        "Elastic": a.ElasticTransform(alpha=50, sigma=5, p=1),
        "OpticalDistortion": a.OpticalDistortion(distort_limit=(0.5, 0.5), p=1),
        "ThinPlateSpline": a.ThinPlateSpline(num_control_points=4, p=1),
        "ColorJitter": a.ColorJitter((1.4, 1.4), (1.3, 1.3), (1.4, 1.4), (0.05, 0.05), p=1),
        "ChannelShuffle": a.ChannelShuffle(p=1),
        "ChannelDropout": a.ChannelDropout(p=1),
        "Grayscale": a.ToGray(p=1),
        "GaussianBlur": a.GaussianBlur((5, 5), (2, 2), p=1),
        "GaussianNoise": a.GaussNoise((0.44, 0.44), p=1),
        "Invert": a.InvertImg(p=1),
        "Posterize": a.Posterize((4, 4), p=1),
        "Solarize": a.Solarize((0.5, 0.5), p=1),
        "Sharpen": a.Sharpen((0.35, 0.35), (1, 1), p=1),
        "AutoContrast": a.AutoContrast(p=1),
        "Equalize": a.Equalize(p=1),
        "Erasing": a.Erasing((0.1, 0.1), p=1),
        "JpegCompression": a.ImageCompression(quality_range=(50, 50), p=1),
        "RandomGamma": a.RandomGamma((120, 120), p=1),
        "MedianBlur": a.MedianBlur((5, 5), p=1),
        "MotionBlur": a.MotionBlur((5, 5), p=1),
        "CLAHE": a.CLAHE((3, 3), (8, 8), p=1),
        "Brightness": a.RandomBrightnessContrast((0.2, 0.2), (0, 0), p=1),
        "Contrast": a.RandomBrightnessContrast((0, 0), (0.2, 0.2), p=1),
        "Blur": a.Blur((5, 5), p=1),
        "Hue": a.HueSaturationValue((20, 20), (0, 0), (0, 0), p=1),
        "Saturation": a.ColorJitter((1, 1), (1, 1), (0.5, 0.5), (0, 0), p=1),
        "SaltAndPepper": a.SaltAndPepper((0.03, 0.03), p=1),
        "Transpose": a.Transpose(p=1),
        "RandomJigsaw": a.RandomGridShuffle((4, 4), p=1),
        "UnsharpMask": a.UnsharpMask((5, 5), (1, 1), (0.35, 0.35), p=1),
        "RGBShift": a.RGBShift((100, 100), (-60, -60), (30, 30), p=1),
        "PlankianJitter": a.PlanckianJitter(mode="blackbody", p=1),
        "LinearIllumination": a.Illumination(mode="linear", intensity_range=(0.1, 0.1), angle_range=(30, 30), p=1),
        "CornerIllumination": a.Illumination(mode="corner", intensity_range=(0.1, 0.1), p=1),
        "GaussianIllumination": a.Illumination(mode="gaussian", intensity_range=(0.1, 0.1), p=1),
        "PlasmaBrightness": a.PlasmaBrightnessContrast((0.3, 0.3), (0, 0), roughness=0.5, p=1),
        "PlasmaContrast": a.PlasmaBrightnessContrast((0, 0), (0.3, 0.3), roughness=0.5, p=1),
        "PlasmaShadow": a.PlasmaShadow((0.5, 0.5), roughness=0.5, p=1),
        "Rain": a.RandomRain(drop_length=20, drop_width=5, brightness_coefficient=1.0, p=1),
        "Snow": a.RandomSnow((0.5, 0.5), brightness_coeff=2.5, method="bleach", p=1),
        "PhotoMetricDistort": a.ColorJitter((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05), p=1),
        "ColorJiggle": a.ColorJitter((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05), p=1),
        "LongestMaxSize": a.LongestMaxSize(512, p=1),
        "SmallestMaxSize": a.SmallestMaxSize(512, p=1),
        "RandomRotate90": a.RandomRotate90(p=1),
    }
    return {name: lambda x, one=one: one(image=x)["image"] for name, one in made.items()}, lambda x: x


def torchvision():
    import torch

    # A wheel of torchvision for another build of PyTorch lacks its detection operators, which no transform needs; without
    # a declaration of some it cannot be imported.
    missing = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            missing.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as f

    torch.set_num_threads(1)
    corners = [[0, 0], [500, 0], [500, 375], [0, 375]], [[30, 20], [470, 30], [480, 350], [20, 340]]

    def jitter(x):
        return f.adjust_hue(f.adjust_saturation(f.adjust_contrast(f.adjust_brightness(x, 1.4), 1.3), 1.4), 0.05)

    return {
        "Resize": lambda x: f.resize(x, [512, 512], antialias=False),
        "RandomCrop224": lambda x: f.crop(x, 45, 193, 224, 224).contiguous(),
        "RandomResizedCrop": lambda x: f.resized_crop(x, 60, 70, 200, 240, [224, 224], antialias=False),
        "CenterCrop224": lambda x: f.center_crop(x, [224, 224]).contiguous(),
        "HorizontalFlip": f.horizontal_flip,
        "VerticalFlip": f.vertical_flip,
        "Pad": lambda x: f.pad(x, [10]),
        "Rotate": lambda x: f.rotate(x, 31, InterpolationMode.NEAREST),
        "Affine": lambda x: f.affine(x, 25, [20, 20], 1.5, [10, 15], InterpolationMode.BILINEAR),
        "Shear": lambda x: f.affine(x, 0, [0, 0], 1.0, [10, 0], InterpolationMode.BILINEAR),
        "Perspective": lambda x: f.perspective(x, *corners),
        "Elastic": v2.ElasticTransform(50.0, 5.0),
        "ColorJitter": jitter,
        "ChannelShuffle": lambda x: x[[2, 0, 1]],
        "Grayscale": lambda x: f.rgb_to_grayscale(x, 3),
        "GaussianBlur": lambda x: f.gaussian_blur(x, [5, 5], [2.0, 2.0]),
        "Invert": f.invert,
        "Posterize": lambda x: f.posterize(x, 4),
        "Solarize": lambda x: f.solarize(x, 128),
        "Sharpen": lambda x: f.adjust_sharpness(x, 1.35),
        "AutoContrast": f.autocontrast,
        "Equalize": f.equalize,
        "Erasing": lambda x: f.erase(x, 50, 60, 120, 150, torch.zeros(3, 1, 1, dtype=torch.uint8)),
        "RandomGamma": lambda x: f.adjust_gamma(x, 1.2),
        "Brightness": lambda x: f.adjust_brightness(x, 1.2),
        "Contrast": lambda x: f.adjust_contrast(x, 1.2),
        "Hue": lambda x: f.adjust_hue(x, 0.05),
        "Saturation": lambda x: f.adjust_saturation(x, 0.5),
        "PhotoMetricDistort": v2.RandomPhotometricDistort(p=0.5),
        "ColorJiggle": v2.ColorJitter((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), 0.05),
        "LongestMaxSize": lambda x: f.resize(x, [384, 512], antialias=False),
        "SmallestMaxSize": lambda x: f.resize(x, [512, 682], antialias=False),
        "Transpose": lambda x: x.transpose(1, 2).contiguous(),
        "RandomRotate90": lambda x: torch.rot90(x, 1, (1, 2)).contiguous(),
    }, lambda x: torch.from_numpy(x).permute(2, 0, 1).contiguous()


def kornia():
    import kornia.augmentation as a
    import kornia.enhance as e
    import kornia.filters as k
    import kornia.geometry as g
    import torch

    torch.set_num_threads(1)
    angle = torch.tensor([31.0])
    return {
        "Resize": lambda x: g.resize(x, (512, 512)),
        "HorizontalFlip": g.hflip,
        "VerticalFlip": g.vflip,
        "Rotate": lambda x: g.rotate(x, angle, mode="nearest"),
        "GaussianBlur": lambda x: k.gaussian_blur2d(x, (5, 5), (2.0, 2.0)),
        "MedianBlur": lambda x: k.median_blur(x, 5),
        "MotionBlur": lambda x: k.motion_blur(x, 5, 35.0, 0.0),
        "Blur": lambda x: k.box_blur(x, (5, 5)),
        "Invert": e.invert,
        "Posterize": lambda x: e.posterize(x, torch.tensor([4])),
        "Solarize": lambda x: e.solarize(x, 0.5),
        "Sharpen": lambda x: e.sharpness(x, 0.35),
        "Equalize": e.equalize,
        "CLAHE": lambda x: e.equalize_clahe(x, 3.0, (8, 8)),
        "RandomGamma": lambda x: e.adjust_gamma(x, 1.2),
        "Brightness": lambda x: e.adjust_brightness(x, 0.2),
        "Contrast": lambda x: e.adjust_contrast(x, 1.2),
        "Hue": lambda x: e.adjust_hue(x, 0.3),
        "Saturation": lambda x: e.adjust_saturation(x, 0.5),
        "UnsharpMask": lambda x: k.unsharp_mask(x, (5, 5), (1.0, 1.0)),
        "RandomResizedCrop": a.RandomResizedCrop((224, 224), p=1.0),
        "Affine": a.RandomAffine((25.0, 25.0), (0.05, 0.05), (1.5, 1.5), (10.0, 15.0), p=1.0),
        "Shear": a.RandomShear((10.0, 10.0), p=1.0),
        "Perspective": a.RandomPerspective(0.1, p=1.0),
        "Elastic": a.RandomElasticTransform((31, 31), (5.0, 5.0), (50.0, 50.0), p=1.0),
        "ThinPlateSpline": a.RandomThinPlateSpline(p=1.0),
        "ColorJitter": a.ColorJitter((1.4, 1.4), (1.3, 1.3), (1.4, 1.4), (0.05, 0.05), p=1.0),
        "ColorJiggle": a.ColorJiggle((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05), p=1.0),
        "ChannelShuffle": a.RandomChannelShuffle(p=1.0),
        "ChannelDropout": a.RandomChannelDropout(p=1.0),
        "Grayscale": a.RandomGrayscale(p=1.0),
        "RGBShift": a.RandomRGBShift(100 / 255, 100 / 255, 100 / 255, p=1.0),
        "GaussianNoise": a.RandomGaussianNoise(0.0, 0.44, p=1.0),
        "AutoContrast": a.RandomAutoContrast(p=1.0),
        "Erasing": a.RandomErasing((0.1, 0.1), p=1.0),
        "JpegCompression": a.RandomJPEG(50, p=1.0),
        "PlankianJitter": a.RandomPlanckianJitter("blackbody", p=1.0),
        "LinearIllumination": a.RandomLinearIllumination((0.1, 0.1), p=1.0),
        "CornerIllumination": a.RandomLinearCornerIllumination((0.1, 0.1), p=1.0),
        "GaussianIllumination": a.RandomGaussianIllumination((0.1, 0.1), p=1.0),
        "PlasmaBrightness": a.RandomPlasmaBrightness((0.5, 0.5), p=1.0),
        "PlasmaContrast": a.RandomPlasmaContrast((0.5, 0.5), p=1.0),
        "PlasmaShadow": a.RandomPlasmaShadow((0.5, 0.5), p=1.0),
        "Rain": a.RandomRain((100, 100), (20, 20), (5, 5), p=1.0),
        "SaltAndPepper": a.RandomSaltAndPepperNoise(0.03, 0.5, p=1.0),
        "Snow": a.RandomSnow((0.5, 0.5), (2.0, 2.0), p=1.0),
        "LongestMaxSize": a.LongestMaxSize(512, p=1.0),
        "SmallestMaxSize": a.SmallestMaxSize(512, p=1.0),
        "RandomRotate90": a.RandomRotation90((1, 1), p=1.0),
    }, lambda x: torch.from_numpy(x).permute(2, 0, 1)[None].float() / 255


def dali():
    from nvidia.dali import fn, pipeline_def, types

    images = photographs()
    turn = [float(v) for v in (0.905 / 1.5, -0.426 / 1.5, 20 / 1.5, 0.426 / 1.5, 0.905 / 1.5, 20 / 1.5)]
    taps = np.full((5, 5), 1 / 25, np.float32)
    levels = np.clip(np.rint(255 * (np.arange(256) / 255) ** 1.2), 0, 255).tolist()
    matrix = [0.88, -0.06, 30.0, 0.026, 0.91, 20.0, 0.0, 0.0, 1.0]
    gamma = {"keys": list(range(256)), "values": levels, "dtype": types.UINT8}
    made = {
        "Resize": lambda x: fn.resize(x, size=(512, 512), antialias=False),
        "RandomCrop224": lambda x: fn.crop(x, crop=(224, 224), crop_pos_x=0.7, crop_pos_y=0.3),
        "RandomResizedCrop": lambda x: fn.random_resized_crop(x, size=(224, 224), antialias=False),
        "CenterCrop224": lambda x: fn.crop(x, crop=(224, 224)),
        "HorizontalFlip": lambda x: fn.flip(x),
        "VerticalFlip": lambda x: fn.flip(x, horizontal=0, vertical=1),
        "Pad": lambda x: fn.slice(
            x, start=(-10, -10), shape=(HEIGHT + 20, WIDTH + 20), axes=(0, 1), out_of_bounds_policy="pad"
        ),
        "Rotate": lambda x: fn.rotate(x, angle=31.0, keep_size=True, interp_type=types.INTERP_NN, fill_value=0),
        "Affine": lambda x: fn.warp_affine(x, matrix=turn, fill_value=0),
        "Shear": lambda x: fn.warp_affine(x, matrix=[1.0, 0.18, 0.0, 0.0, 1.0, 0.0], fill_value=0),
        "Perspective": lambda x: fn.experimental.warp_perspective(x, matrix=matrix, fill_value=0),
        "ColorJitter": lambda x: fn.color_twist(x, brightness=1.4, contrast=1.3, saturation=1.4, hue=20.0),
        "Grayscale": lambda x: fn.saturation(x, saturation=0.0),
        "GaussianBlur": lambda x: fn.gaussian_blur(x, sigma=2.0, window_size=5),
        "GaussianNoise": lambda x: fn.noise.gaussian(x, stddev=112.0),
        "Equalize": lambda x: fn.experimental.equalize(x),
        "Erasing": lambda x: fn.erase(x, anchor=(50.0, 60.0), shape=(120.0, 150.0), axes=(0, 1), fill_value=0.0),
        "JpegCompression": lambda x: fn.jpeg_compression_distortion(x, quality=50),
        "RandomGamma": lambda x: fn.lookup_table(x, **gamma),
        "CLAHE": lambda x: fn.clahe(x, tiles_x=8, tiles_y=8, clip_limit=3.0),
        "Brightness": lambda x: fn.brightness(x, brightness=1.2),
        "Contrast": lambda x: fn.contrast(x, contrast=1.2),
        "Blur": lambda x: fn.experimental.filter(x, types.Constant(taps, device="cpu")),
        "Hue": lambda x: fn.hue(x, hue=20.0),
        "Saturation": lambda x: fn.saturation(x, saturation=0.5),
        "SaltAndPepper": lambda x: fn.noise.salt_and_pepper(x, prob=0.03),
        "Transpose": lambda x: fn.transpose(x, perm=[1, 0, 2]),
        "LongestMaxSize": lambda x: fn.resize(x, resize_longer=512, antialias=False),
        "SmallestMaxSize": lambda x: fn.resize(x, resize_shorter=512, antialias=False),
        "RandomRotate90": lambda x: fn.rotate(x, angle=90.0),
    }

    def running(make):
        """A call that runs a batch of all images when the first of them comes."""
        built = []

        def run(first):
            if not built:

                @pipeline_def(batch_size=len(images), num_threads=1, device_id=None, prefetch_queue_depth=1)
                def define():
                    given = fn.external_source(source=lambda: images, layout="HWC", batch=True, no_copy=True)
                    return make(given)

                built.append(define())
                built[0].build()
            if first:
                built[0].run()

        return run

    # each call gets True for the first image and False for the others: the whole batch runs for the first one
    given = iter([True] + [False] * (len(images) - 1))
    return {name: running(make) for name, make in made.items()}, lambda _: next(given)


LIBRARIES = {
    "pipeflow": (pipeflow, None),
    "OpenCV": (opencv, None),
    "Pillow": (pillow, None),
    "albumentations": (albumentations, "augmentations"),
    "torchvision": (torchvision, "augmentations"),
    "kornia": (kornia, "augmentations"),
    "DALI": (dali, "dali"),
}
KNOWN: dict[str, tuple] = {}


def prepare(name: str, case: str):
    warnings.simplefilter("ignore")
    if name not in KNOWN:
        try:
            transforms, given = LIBRARIES[name][0]()
        except (ImportError, RuntimeError) as error:  # torchvision refuses a PyTorch that it was not built for
            print(f"left out, it cannot be imported: {name} ({error})", file=sys.stderr)
            transforms, given = {}, len
        KNOWN[name] = transforms, [given(image) for image in photographs()]
    transforms, images = KNOWN[name]
    if case not in transforms:
        return None
    transform = transforms[case]

    def repetition() -> Measures:
        count, begun = 0, perf_counter()
        while perf_counter() - begun < SECONDS:
            for image in images:
                transform(image)
            count += len(images)
        return {"an image": (perf_counter() - begun) / count}

    return repetition


def sides() -> list[Side]:
    return [
        Side(name, lambda case, name=name: prepare(name, case), environment)
        for name, (_, environment) in LIBRARIES.items()
    ]


def main() -> int:
    importlib.import_module("pipeflow")
    reading = header((__doc__ or "").splitlines()[0])
    words = sys.argv[1:]
    if "--photographs" in words:
        place = words.index("--photographs")
        images = cut_out(words[place + 1])
        SETTINGS["photographs"] = str(Path(tempfile.mkdtemp()) / "photographs.npy")
        np.save(SETTINGS["photographs"], np.stack(images))
        del words[place : place + 2]
    wanted = [word.lower() for word in words]
    names = {name.lower(): name for name in pipeflow()[0]}
    rows = [
        name
        for low, name in names.items()
        if not wanted or any(word == low or (word not in names and word in low) for word in wanted)
    ]
    measured = measure(__file__, sides(), rows, SETTINGS, repetitions=5)
    results = with_earlier("transforms", reading, measured)
    libraries = [name for name in LIBRARIES if any(name in row for row in results.values())]
    lines, ratios = [], []
    for case, found in results.items():
        medians = {name: spread(measures, lambda row: row["an image"])[0] for name, measures in found.items()}
        others = [value for name, value in medians.items() if name != "pipeflow"]
        ratio = min(others) / medians["pipeflow"] if others else float("nan")
        ratios += [ratio] if others else []
        speeds = [f"{1 / medians[name]:.0f}" if name in medians else "" for name in libraries]
        lines.append((case, *speeds, f"{ratio:.2f}" if others else ""))
    table(f"Images of {HEIGHT} x {WIDTH} a second, one thread", ["transform", *libraries, "to the best other"], lines)
    behind = [line[0] for line in lines if line[-1] and float(line[-1]) < 1]
    print(
        f"\nrows: {len(lines)}, first on {len(ratios) - len(behind)} of {len(ratios)}; behind: {', '.join(behind) or 'none'}"
    )
    targets = (
        [Target("median speed, times the best other", float(np.median(ratios)), 1.5, at_most=False)] if ratios else []
    )
    verdicts(targets)
    save("transforms", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(sides(), SETTINGS) else 0)
