package ai.edgemem;

import java.util.Arrays;
import java.util.List;

/** Sizes for the open dimensions of inputs. */
final class Shapes {
  /** For the height and width of an input of rank 4, where nothing is said about them. */
  private static final long PICTURE = 224;

  private Shapes() {}

  /**
   * The shape that an input is fed in.
   *
   * @param declared the model's, -1 for an open dimension
   * @param names of the dimensions, "" where there is none
   * @param notes gets a sentence about each size that nobody gave
   */
  static long[] bind(
      String input, long[] declared, String[] names, PlannedModel.Options options, List<String> notes) {
    long[] asked = options.shapes.get(input);
    if (asked != null) {
      return matched(input, declared, asked);
    }
    long[] shape = declared.clone();
    boolean isMadeUp = false;
    for (int i = 0; i < shape.length; i++) {
      if (shape[i] >= 0) {
        continue;
      }
      Long given = names[i] == null || names[i].isEmpty() ? null : options.dims.get(names[i]);
      if (given == null) {
        isMadeUp = true;
        shape[i] = isPictureSide(declared, i) ? PICTURE : 1;
      } else if (given < 0) {
        throw new IllegalArgumentException("dimension " + names[i] + " is 0 or more, not " + given);
      } else {
        shape[i] = given;
      }
    }
    if (isMadeUp) {
      notes.add(
          "input " + input + " has open dimensions " + Arrays.toString(declared) + ": run at " + Arrays.toString(shape));
    }
    return shape;
  }

  /** A dimension of rank 4 that is neither the batch nor, where the other two tell, the channels. */
  private static boolean isPictureSide(long[] declared, int i) {
    if (declared.length != 4 || i == 0) {
      return false;
    }
    boolean isChannelsLast = declared[3] == 1 || declared[3] == 3;
    return isChannelsLast ? i < 3 : i > 1;
  }

  private static long[] matched(String input, long[] declared, long[] asked) {
    boolean isSame = asked.length == declared.length;
    for (int i = 0; isSame && i < asked.length; i++) {
      isSame = asked[i] >= 0 && (declared[i] < 0 || declared[i] == asked[i]);
    }
    if (!isSame) {
      throw new IllegalArgumentException(
          "input " + input + " has the shape " + Arrays.toString(declared) + ", not " + Arrays.toString(asked));
    }
    return asked.clone();
  }
}
