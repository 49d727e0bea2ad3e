package ai.edgemem.demo;

import ai.edgemem.Port;
import java.nio.FloatBuffer;

/** Pixels, how one is drawn that comes with the app, and how a model gets them. */
final class Picture {
  private static final float[] MEAN = {0.485f, 0.456f, 0.406f};
  private static final float[] DEVIATION = {0.229f, 0.224f, 0.225f};

  final int width;
  final int height;

  /** 0xAARRGGBB, row by row. */
  final int[] argb;

  Picture(int width, int height, int[] argb) {
    if (width <= 0 || height <= 0 || argb.length != (long) width * height) {
      throw new IllegalArgumentException("a picture of " + width + " x " + height + " has " + argb.length + " pixels");
    }
    this.width = width;
    this.height = height;
    this.argb = argb;
  }

  /** A drawing of two faces; the same pixels on every machine, because it is made of + - * / and the square root. */
  static Picture drawn() {
    Drawing drawing = new Drawing(320, 320);
    drawing.background(0xFF9DB4C8, 0xFF5F7A66);
    drawing.face(112, 150, 58, 0xFFE8B998, 0xFF4A2F20);
    drawing.face(236, 186, 44, 0xFFB98562, 0xFF1E1A1C);
    return drawing.picture();
  }

  /** Whether an input looks like one for pictures: of rank 4, with 1 or 3 channels, first or last. */
  static boolean isFor(Port input) {
    long[] shape = input.shape();
    boolean isTyped =
        input.type.equals("FLOAT") || input.type.equals("FLOAT16") || input.type.equals("UINT8");
    return isTyped && shape.length == 4 && shape[0] == 1 && (isChannelsFirst(shape) || isChannels(shape[3]));
  }

  private static boolean isChannels(long size) {
    return size == 1 || size == 3;
  }

  /** With 1 and 3 the 3 is the channels: a picture of one row has them last. */
  private static boolean isChannelsFirst(long[] shape) {
    return isChannels(shape[1]) && !(shape[1] == 1 && shape[3] == 3);
  }

  /** The values of an input that {@link #isFor} accepts: the picture stretched to its size, with linear interpolation. */
  FloatBuffer values(Port input, Config.Scale scale) {
    long[] shape = input.shape();
    boolean isFirst = isChannelsFirst(shape);
    int channels = (int) (isFirst ? shape[1] : shape[3]);
    int rows = (int) (isFirst ? shape[2] : shape[1]);
    int columns = (int) (isFirst ? shape[3] : shape[2]);
    boolean isBytes = input.type.equals("UINT8");
    float[] values = new float[input.elements()];
    float[] pixel = new float[3];
    for (int y = 0; y < rows; y++) {
      for (int x = 0; x < columns; x++) {
        sample((x + 0.5f) * width / columns - 0.5f, (y + 0.5f) * height / rows - 0.5f, pixel);
        if (channels == 1) {
          pixel[0] = (pixel[0] + pixel[1] + pixel[2]) / 3;
        }
        for (int c = 0; c < channels; c++) {
          int at = isFirst ? (c * rows + y) * columns + x : (y * columns + x) * channels + c;
          values[at] = isBytes ? pixel[c] : scaled(pixel[c], c, scale);
        }
      }
    }
    return FloatBuffer.wrap(values);
  }

  private static float scaled(float value, int channel, Config.Scale scale) {
    switch (scale) {
      case MINUS_ONE_TO_ONE:
        return value / 127.5f - 1;
      case IMAGENET:
        return (value / 255 - MEAN[channel]) / DEVIATION[channel];
      default:
        return value / 255;
    }
  }

  /** Red, green and blue, 0 to 255, at a place between the centres of pixels. */
  private void sample(float x, float y, float[] rgb) {
    int left = clip((int) Math.floor(x), width);
    int top = clip((int) Math.floor(y), height);
    int right = Math.min(left + 1, width - 1);
    int bottom = Math.min(top + 1, height - 1);
    float u = Math.max(0, Math.min(1, x - left));
    float v = Math.max(0, Math.min(1, y - top));
    for (int c = 0; c < 3; c++) {
      int shift = 16 - 8 * c;
      float above = (1 - u) * part(left, top, shift) + u * part(right, top, shift);
      float below = (1 - u) * part(left, bottom, shift) + u * part(right, bottom, shift);
      rgb[c] = (1 - v) * above + v * below;
    }
  }

  private int part(int x, int y, int shift) {
    return (argb[y * width + x] >> shift) & 0xFF;
  }

  private static int clip(int at, int size) {
    return Math.max(0, Math.min(size - 1, at));
  }
}
