"""The operators that each file declares, so that `import pipeflow` imports none of these files."""

# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.
LINES = """
audio audio_resample mel_filter_bank mfcc nonsilent_region power_spectrum preemphasis_filter spectrogram to_decibels
bayer debayer
boxes bb_flip bbox_paste box_encoder coord_flip random_bbox_crop ssd_random_crop
cache cache
color brightness brightness_contrast color_twist contrast hsv hue saturation
color_draws color_jitter photometric_distort planckian_jitter
color_spaces color_space_conversion grayscale
crop_mirror_normalize crop_mirror_normalize
decoders decoders.image decoders.numpy io.file.read peek_image_shape
decoders_audio decoders.audio
decoders_cropped decoders.image_crop decoders.image_random_crop decoders.image_slice
decoders_volumes decoders.volume decoders.volume_crop
derivatives _derivative _derivative_none _derivative_start _derivative_sum _tape_back
displacement experimental.remap experimental.warp_perspective jitter remap sphere warp_perspective water
distortions distortions.elastic distortions.grid distortions.jigsaw distortions.optical distortions.thin_plate
dump_image dump_image
effects channel_dropout channel_shuffle enhance jigsaw motion_blur sharpen unsharp_mask
erase erase
external_source external_source
filters filter laplacian
frames element_extract per_frame sequence_rearrange
generic cast cast_like constant full full_like lookup_table one_hot ones ones_like zeros zeros_like
geometry crop flip pad rotate90 slice
gradients _taped_function gradients
histograms clahe equalize
image gaussian_blur jpeg_compression_distortion normalize
inflate decoders.inflate
math math.abs math.acos math.acosh math.add math.asin math.asinh math.atan math.atan2 math.atanh math.bitand
math math.bitnot math.bitor math.bitxor math.cbrt math.ceil math.clamp math.cos math.cosh math.div math.eq math.exp
math math.fabs math.fdiv math.floor math.fpow math.ge math.gt math.le math.log math.log10 math.log2 math.lt math.max
math math.min math.minus math.mod math.mul math.ne math.plus math.pow math.rsqrt math.shl math.shr math.sin
math math.sinh math.sqrt math.sub math.tan math.tanh
mixing cutmix mixup
morphology dilate erode experimental.dilate experimental.erode experimental.median_blur median_blur
moved_boxes bbox_crop bbox_remap coord_crop coord_remap
noise noise.gaussian noise.salt_and_pepper noise.shot
numba_function experimental.numba_function numba_function
optical_flow optical_flow
paste grid_mask multi_paste paste
python_function python_function
random batch_permutation random.beta random.choice random.coin_flip random.normal random.uniform
readers.caffe readers.caffe
readers.caffe2 readers.caffe2
readers.coco readers.coco
readers.dataset readers.dataset
readers.file readers.file
readers.fits experimental.readers.fits readers.fits
readers.mix mix
readers.mxnet readers.mxnet
readers.nemo_asr readers.nemo_asr
readers.numpy readers.numpy readers.numpy_paths readers.numpy_region
readers.parquet readers.parquet
readers.sequence readers.sequence
readers.tfrecord readers.tfrecord
readers.webdataset readers.webdataset
reductions reductions.max reductions.mean reductions.mean_square reductions.min reductions.rms reductions.std_dev
reductions reductions.sum reductions.variance
resize experimental.resize random_resized_crop resize resize_crop_mirror
segmentation random_crop_generator roi_random_crop segmentation.random_mask_pixel segmentation.random_object_bbox
segmentation segmentation.select_masks
shading illumination.corner illumination.gaussian illumination.linear plasma.brightness plasma.contrast
shading plasma.shadow
shape cat expand_dims permute_batch reinterpret reshape squeeze stack transpose
structure _constant _given _merge _merge_late _not _operand _predicate _subscript _transfer _truth copy get_property
structure shapes
tensor_functions dl_tensor_python_function jax_function torch_python_function
tensor_resize tensor_resize
tensorflow_functions numpy_function py_func py_function
tones autocontrast channel_shift contrast_about_mean invert posterize solarize solarize_add
transforms coord_transform transforms.combine transforms.crop transforms.perspective transforms.rotation
transforms transforms.scale transforms.shear transforms.translation
warp rotate warp_affine
warped_boxes bbox_rotate bbox_warp coord_warp
weather weather.fog weather.rain weather.snow
"""
