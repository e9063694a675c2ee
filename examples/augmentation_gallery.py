"""A contact sheet of the image operators: one drawn scene, and what each operator makes of it.

python examples/augmentation_gallery.py [--output examples/output/augmentation_gallery.png]
"""

import argparse
from pathlib import Path

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    from PIL import Image, ImageDraw
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install pillow") from None

HEIGHT, WIDTH, MARGIN, LABEL, COLUMNS = 150, 200, 8, 16, 7


def scene() -> np.ndarray:
    """Sky, sun, hills, a house and a tree."""
    large = Image.new("RGB", (4 * WIDTH, 4 * HEIGHT))
    draw = ImageDraw.Draw(large)
    for y in range(4 * HEIGHT):
        draw.line((0, y, 4 * WIDTH, y), (90 + y // 6, 150 + y // 9, 235 - y // 14))
    draw.ellipse((600, 40, 720, 160), (255, 225, 90))
    draw.ellipse((-200, 330, 500, 900), (70, 140, 60))
    draw.ellipse((300, 380, 1100, 1000), (90, 165, 70))
    draw.rectangle((180, 300, 340, 440), (190, 80, 60))
    draw.polygon(((160, 300), (260, 210), (360, 300)), (110, 50, 40))
    draw.rectangle((240, 370, 285, 440), (80, 45, 30))
    draw.rectangle((200, 325, 230, 355), (240, 230, 170))
    draw.rectangle((560, 340, 585, 450), (105, 70, 40))
    draw.ellipse((500, 220, 645, 370), (40, 110, 45))
    return np.asarray(large.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))


SCENE = scene()
OTHER = np.ascontiguousarray(SCENE[:, ::-1, ::-1])  # what the scene is mixed with
ONE = np.ones(1, np.float32)
EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)
PERSPECTIVE = fn.transforms.perspective(
    source=[0, 0, WIDTH, 0, WIDTH, HEIGHT, 0, HEIGHT], target=[30, 10, 180, 30, 195, 145, 10, 120]
)

# What is below a picture, and the call that makes it.
GALLERY = {
    "the scene": lambda x: x,
    "resize, size 40, NN": lambda x: fn.resize(
        fn.resize(x, size=(30, 40)), size=(150, 200), interp_type=types.INTERP_NN
    ),
    "resize, size 40, cubic": lambda x: fn.resize(
        fn.resize(x, size=(30, 40)), size=(150, 200), interp_type=types.INTERP_CUBIC
    ),
    "resize, not larger": lambda x: fn.resize(x, size=(150, 120), mode="not_larger"),
    "random_resized_crop": lambda x: fn.random_resized_crop(x, size=(150, 200), random_area=(0.2, 0.5)),
    "resize_crop_mirror": lambda x: fn.resize_crop_mirror(x, resize_shorter=220, crop=(150, 200), mirror=1),
    "crop": lambda x: fn.crop(x, crop=(100, 100), crop_pos_x=0.15, crop_pos_y=0.6),
    "slice": lambda x: fn.slice(x, rel_start=(0.5, 0.1), rel_end=(1.0, 0.9), axis_names="WH"),
    "crop, padded": lambda x: fn.crop(x, crop=(180, 240), out_of_bounds_policy="pad", fill_values=[200.0, 60.0, 90.0]),
    "pad": lambda x: fn.pad(fn.crop(x, crop=(110, 150)), axes=(0, 1), shape=(150, 200), fill_value=40),
    "flip horizontal": lambda x: fn.flip(x),
    "flip vertical": lambda x: fn.flip(x, horizontal=0, vertical=1),
    "rotate90": lambda x: fn.rotate90(x),
    "mixup": lambda x: fn.mixup(x, types.Constant(ONE), share=0.6, partner=1)[0],
    "cutmix": lambda x: fn.cutmix(x, types.Constant(ONE), share=0.6, partner=1)[0],
    "rotate, canvas grows": lambda x: fn.rotate(x, angle=20.0, fill_value=255),
    "rotate, size kept": lambda x: fn.rotate(x, angle=20.0, keep_size=True),
    "warp_affine, shear": lambda x: fn.warp_affine(x, matrix=(1.0, 0.35, -26.0, 0.1, 1.0, -10.0), fill_value=0),
    "erase": lambda x: fn.erase(
        x, anchor=(30.0, 20.0, 80.0, 120.0), shape=(50.0, 60.0, 40.0, 50.0), fill_value=[250.0, 120.0, 60.0]
    ),
    "transpose": lambda x: fn.transpose(x, perm=(1, 0, 2)),
    "brightness": lambda x: fn.brightness(x, brightness=1.4),
    "contrast": lambda x: fn.contrast(x, contrast=1.8),
    "brightness_contrast": lambda x: fn.brightness_contrast(x, brightness=0.7, contrast=0.5),
    "hue": lambda x: fn.hue(x, hue=120.0),
    "saturation": lambda x: fn.saturation(x, saturation=2.5),
    "saturation 0": lambda x: fn.saturation(x, saturation=0.0),
    "hsv": lambda x: fn.hsv(x, hue=-40.0, saturation=1.4, value=0.8),
    "color_twist": lambda x: fn.color_twist(x, hue=200.0, saturation=1.3, brightness=1.1, contrast=1.2),
    "grey": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.GRAY),
    "as BGR": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.BGR),
    "YCbCr": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr),
    "lookup_table": lambda x: fn.lookup_table(
        x, keys=list(range(256)), values=[float(v // 64 * 85) for v in range(256)], dtype=types.UINT8
    ),
    "gaussian_blur": lambda x: fn.gaussian_blur(x, sigma=3.0),
    "gaussian_blur, one axis": lambda x: fn.gaussian_blur(x, window_size=(1, 31)),
    "noise.gaussian": lambda x: fn.noise.gaussian(x, stddev=30.0),
    "jpeg_compression": lambda x: fn.jpeg_compression_distortion(x, quality=4),
    "noise.salt_and_pepper": lambda x: fn.noise.salt_and_pepper(x, prob=0.1),
    "noise.shot": lambda x: fn.noise.shot(x, factor=40.0),
    "filter, emboss": lambda x: fn.filter(x, types.Constant(EMBOSS)),
    "laplacian": lambda x: fn.laplacian(x, window_size=3, scale=0.5),
    "median_blur": lambda x: fn.median_blur(x, window_size=(7, 7)),
    "dilate": lambda x: fn.dilate(x, mask_size=(7, 7)),
    "erode": lambda x: fn.erode(x, mask_size=(7, 7)),
    "motion_blur": lambda x: fn.motion_blur(x, size=15, angle=30.0),
    "sharpen": lambda x: fn.sharpen(x, alpha=0.6),
    "unsharp_mask": lambda x: fn.unsharp_mask(x, sigma=3.0, amount=1.5),
    "enhance, edges": lambda x: fn.enhance(x, alpha=1.0),
    "equalize": lambda x: fn.equalize(x),
    "clahe": lambda x: fn.clahe(x, tiles_x=4, tiles_y=4, clip_limit=4.0),
    "autocontrast": lambda x: fn.autocontrast(fn.contrast(x, contrast=0.4)),
    "contrast_about_mean": lambda x: fn.contrast_about_mean(x, contrast=1.8),
    "invert": lambda x: fn.invert(x),
    "posterize": lambda x: fn.posterize(x, bits=2),
    "solarize": lambda x: fn.solarize(x, threshold=128.0),
    "solarize_add": lambda x: fn.solarize_add(x, shift=90),
    "channel_shift": lambda x: fn.channel_shift(x, shift=[60.0, -40.0, 0.0]),
    "color_jitter": lambda x: fn.color_jitter(x, brightness=(0.7, 1.3), hue=(-60.0, 60.0)),
    "photometric_distort": lambda x: fn.photometric_distort(x, prob=1.0),
    "planckian_jitter": lambda x: fn.planckian_jitter(x, temperature=3000.0),
    "illumination.linear": lambda x: fn.illumination.linear(x, gain=-0.9, angle=30.0),
    "illumination.corner": lambda x: fn.illumination.corner(x, gain=-0.9, corner=1),
    "illumination.gaussian": lambda x: fn.illumination.gaussian(x, gain=0.8, center=[0.3, 0.6], sigma=0.2),
    "plasma.brightness": lambda x: fn.plasma.brightness(x, intensity=0.4),
    "plasma.contrast": lambda x: fn.plasma.contrast(x, intensity=0.9),
    "plasma.shadow": lambda x: fn.plasma.shadow(x, intensity=0.8),
    "weather.rain": lambda x: fn.weather.rain(x, density=0.003),
    "weather.snow": lambda x: fn.weather.snow(x, point=0.45),
    "weather.fog": lambda x: fn.weather.fog(x, density=0.8),
    "channel_shuffle": lambda x: fn.channel_shuffle(x),
    "channel_dropout": lambda x: fn.channel_dropout(x),
    "jigsaw": lambda x: fn.jigsaw(x, grid=(3, 4)),
    "grid_mask": lambda x: fn.grid_mask(x, tile=30, ratio=0.5, angle=0.4),
    "paste": lambda x: fn.resize(fn.paste(x, ratio=1.6, fill_value=(200, 60, 90)), size=(150, 200)),
    "warp_perspective": lambda x: fn.warp_perspective(x, PERSPECTIVE, inverse_map=False),
    "distortions.elastic": lambda x: fn.remap(x, *fn.distortions.elastic(x, alpha=150.0, sigma=6.0)),
    "distortions.grid": lambda x: fn.remap(x, *fn.distortions.grid(x, limit=0.45)),
    "distortions.optical": lambda x: fn.remap(x, *fn.distortions.optical(x, strength=0.6)),
    "distortions.thin_plate": lambda x: fn.remap(x, *fn.distortions.thin_plate(x, scale=0.06)),
    "water": lambda x: fn.water(x, ampl_x=4.0, ampl_y=4.0, freq_x=0.1, freq_y=0.1),
    "sphere": lambda x: fn.sphere(x),
    "jitter": lambda x: fn.jitter(x, nDegree=8),
    "normalize": lambda x: fn.normalize(x, axes=(0, 1), scale=60.0, shift=128.0, dtype=types.UINT8),
    "crop_mirror_normalize": lambda x: fn.crop_mirror_normalize(
        x, crop=(120, 160), mirror=1, mean=[90.0], std=[0.6], output_layout="HWC", dtype=types.UINT8
    ),
}


@pipeline_def(batch_size=2, num_threads=1, seed=3)
def gallery():
    """One output for each picture."""
    image = fn.external_source(source=lambda: [SCENE, OTHER], layout="HWC", dtype=types.UINT8, ndim=3)
    return tuple(make(image) for make in GALLERY.values())


def sheet(pictures: list[np.ndarray]) -> Image.Image:
    """The pictures in rows with their names below."""
    rows = -(-len(pictures) // COLUMNS)
    step = (WIDTH + MARGIN, HEIGHT + LABEL + MARGIN)
    page = Image.new("RGB", (COLUMNS * step[0] + MARGIN, rows * step[1] + MARGIN), (250, 250, 247))
    draw = ImageDraw.Draw(page)
    for number, (name, picture) in enumerate(zip(GALLERY, pictures)):
        left, top = MARGIN + number % COLUMNS * step[0], MARGIN + number // COLUMNS * step[1]
        shown = Image.fromarray(picture if picture.shape[2] == 3 else np.repeat(picture, 3, 2))
        shown.thumbnail((WIDTH, HEIGHT))
        page.paste(shown, (left + (WIDTH - shown.width) // 2, top + (HEIGHT - shown.height) // 2))
        draw.text((left + 4, top + HEIGHT + 2), name, (50, 50, 50))
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "augmentation_gallery.png")
    output = parser.parse_args().output
    pictures = [np.asarray(batch.at(0)) for batch in gallery().run()]
    output.parent.mkdir(parents=True, exist_ok=True)
    sheet(pictures).save(output)
    print(f"{len(pictures)} pictures in {output}")


if __name__ == "__main__":
    main()
