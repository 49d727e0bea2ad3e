package ai.edgemem.demo;

import ai.edgemem.Port;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/**
 * Faces in the outputs of two kinds of detectors.
 *
 * <p>BlazeFace: two anchors in each cell of a grid of 16 x 16 (or another even side), then six in each cell of one of
 * half that side, in one pair of outputs or in two. A score is a logit; a box is 16 numbers in pixels of the input, of which the first four are the
 * centre relative to the anchor and the size. Detectors like UltraFace: n x 2 probabilities, and n x 4 corners as shares
 * of the picture.
 */
final class Faces {
  /** A face: corners as shares of the picture's width and height, and how sure the model is, 0 to 1. */
  static final class Box {
    final float left;
    final float top;
    final float right;
    final float bottom;
    final float score;

    Box(float left, float top, float right, float bottom, float score) {
      this.left = left;
      this.top = top;
      this.right = right;
      this.bottom = bottom;
      this.score = score;
    }
  }

  private static final int NUMBERS = 16;
  private static final float LEAST_SCORE = 0.6f;
  private static final float MOST_OVERLAP = 0.3f;

  private Faces() {}

  /** The faces, the surest first; null if the outputs are not those of a detector that is known. */
  static List<Box> find(List<Port> ports, Map<String, float[]> values, int side) {
    float[] scores = joined(ports, values, 1);
    float[] boxes = joined(ports, values, NUMBERS);
    int cells = (int) Math.sqrt(2 * scores.length / 7.0);
    boolean isGrid = cells > 0 && cells % 2 == 0 && 2 * scores.length == 7 * cells * cells;
    if (side > 0 && isGrid && boxes.length == scores.length * NUMBERS) {
      return unique(blaze(scores, boxes, cells, side));
    }
    float[] shares = joined(ports, values, 2);
    float[] corners = joined(ports, values, 4);
    if (shares.length > 0 && corners.length == 2 * shares.length) {
      return unique(corners(shares, corners));
    }
    return null;
  }

  /** All outputs of 1 x n x `width` one after the other, the longest first. */
  private static float[] joined(List<Port> ports, Map<String, float[]> values, int width) {
    List<float[]> found = new ArrayList<>();
    for (Port port : ports) {
      long[] shape = port.shape();
      if (shape.length == 3 && shape[0] == 1 && shape[2] == width && values.containsKey(port.name)) {
        found.add(values.get(port.name));
      }
    }
    Collections.sort(
        found,
        new Comparator<float[]>() {
          @Override
          public int compare(float[] a, float[] b) {
            return Integer.compare(b.length, a.length);
          }
        });
    int length = 0;
    for (float[] one : found) {
      length += one.length;
    }
    float[] all = new float[length];
    int at = 0;
    for (float[] one : found) {
      System.arraycopy(one, 0, all, at, one.length);
      at += one.length;
    }
    return all;
  }

  private static List<Box> blaze(float[] scores, float[] boxes, int finest, int side) {
    List<Box> found = new ArrayList<>();
    int anchor = 0;
    for (int cells = finest; anchor < scores.length; cells /= 2) {
      int each = cells == finest ? 2 : 6;
      for (int k = 0; k < cells * cells * each; k++, anchor++) {
        float score = (float) (1 / (1 + Math.exp(-scores[anchor])));
        if (!(score >= LEAST_SCORE)) {
          continue;
        }
        int cell = k / each;
        float x = (cell % cells + 0.5f) / cells + boxes[NUMBERS * anchor] / side;
        float y = (cell / cells + 0.5f) / cells + boxes[NUMBERS * anchor + 1] / side;
        float width = boxes[NUMBERS * anchor + 2] / side;
        float height = boxes[NUMBERS * anchor + 3] / side;
        found.add(new Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2, score));
      }
    }
    return found;
  }

  private static List<Box> corners(float[] shares, float[] corners) {
    List<Box> found = new ArrayList<>();
    for (int k = 0; k < shares.length / 2; k++) {
      float score = shares[2 * k + 1];
      if (score >= LEAST_SCORE) {
        float[] box = Arrays.copyOfRange(corners, 4 * k, 4 * k + 4);
        found.add(new Box(box[0], box[1], box[2], box[3], score));
      }
    }
    return found;
  }

  /** Without boxes that overlap a surer one. */
  private static List<Box> unique(List<Box> boxes) {
    List<Box> sorted = new ArrayList<>(boxes);
    Collections.sort(
        sorted,
        new Comparator<Box>() {
          @Override
          public int compare(Box a, Box b) {
            return Float.compare(b.score, a.score);
          }
        });
    List<Box> kept = new ArrayList<>();
    for (Box box : sorted) {
      boolean isNew = true;
      for (Box other : kept) {
        isNew &= overlap(box, other) <= MOST_OVERLAP;
      }
      if (isNew) {
        kept.add(box);
      }
    }
    return kept;
  }

  /** The shared area over the area of both. */
  static float overlap(Box a, Box b) {
    float width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    float height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (!(width > 0 && height > 0)) {
      return 0;
    }
    float both = width * height;
    float all = (a.right - a.left) * (a.bottom - a.top) + (b.right - b.left) * (b.bottom - b.top) - both;
    return both / all;
  }
}
