package ai.edgemem;

import ai.onnxruntime.OnnxJavaType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Elements of tensors as bytes in the machine's order, and as floats. */
final class Values {
  private static final long MULTIPLIER = 2654435761L;

  private Values() {}

  /** Whether tensors of this type can be fed and read. */
  static boolean isKnown(OnnxJavaType type) {
    switch (type) {
      case FLOAT:
      case DOUBLE:
      case INT8:
      case UINT8:
      case INT16:
      case INT32:
      case INT64:
      case BOOL:
      case FLOAT16:
        return true;
      default:
        return false;
    }
  }

  /** A direct buffer for this many elements. */
  static ByteBuffer allocate(OnnxJavaType type, int elements) {
    long bytes = (long) elements * type.size;
    if (bytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("a tensor of " + bytes + " bytes is too large for a buffer");
    }
    return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
  }

  /**
   * Element k of made-up values: ((k + 1) * 2654435761 + seed) mod 2^32, its upper 24 bits over 2^24. So it is at least
   * 0 and below 1, and any language can make the same.
   */
  static float seeded(long k, int seed) {
    long mixed = ((k + 1) * MULTIPLIER + (seed & 0xFFFFFFFFL)) & 0xFFFFFFFFL;
    return (mixed >>> 8) / (float) (1 << 24);
  }

  /** Fills a tensor with made-up values; whole numbers are 0 or 1. */
  static void fillSeeded(OnnxJavaType type, ByteBuffer to, int elements, int seed) {
    boolean isReal = type == OnnxJavaType.FLOAT || type == OnnxJavaType.DOUBLE || type == OnnxJavaType.FLOAT16;
    for (int k = 0; k < elements; k++) {
      float value = seeded(k, seed);
      put(type, to, k, isReal ? value : Math.round(value));
    }
  }

  /** Fills a tensor from floats, which are rounded and clipped where the type has whole numbers. */
  static void fill(OnnxJavaType type, ByteBuffer to, FloatBuffer from) {
    for (int k = 0, at = from.position(), end = from.limit(); at < end; k++, at++) {
      put(type, to, k, from.get(at));
    }
  }

  private static void put(OnnxJavaType type, ByteBuffer to, int k, float value) {
    switch (type) {
      case FLOAT:
        to.putFloat(4 * k, value);
        break;
      case DOUBLE:
        to.putDouble(8 * k, value);
        break;
      case INT8:
        to.put(k, (byte) clip(value, Byte.MIN_VALUE, Byte.MAX_VALUE));
        break;
      case UINT8:
        to.put(k, (byte) clip(value, 0, 255));
        break;
      case INT16:
        to.putShort(2 * k, (short) clip(value, Short.MIN_VALUE, Short.MAX_VALUE));
        break;
      case INT32:
        to.putInt(4 * k, Math.round(value));
        break;
      case INT64:
        to.putLong(8 * k, Math.round((double) value));
        break;
      case BOOL:
        to.put(k, (byte) (value >= 0.5f ? 1 : 0));
        break;
      case FLOAT16:
        to.putShort(2 * k, toHalf(value));
        break;
      default:
        throw new IllegalArgumentException("tensors of type " + type + " cannot be filled");
    }
  }

  private static int clip(float value, int low, int high) {
    return Math.max(low, Math.min(high, Math.round(value)));
  }

  /** The elements of a tensor as floats. */
  static float[] floats(OnnxJavaType type, ByteBuffer from) {
    float[] values = new float[from.remaining() / type.size];
    int start = from.position();
    for (int k = 0; k < values.length; k++) {
      values[k] = get(type, from, start + k * type.size);
    }
    return values;
  }

  private static float get(OnnxJavaType type, ByteBuffer from, int at) {
    switch (type) {
      case FLOAT:
        return from.getFloat(at);
      case DOUBLE:
        return (float) from.getDouble(at);
      case INT8:
        return from.get(at);
      case UINT8:
        return from.get(at) & 0xFF;
      case INT16:
        return from.getShort(at);
      case INT32:
        return from.getInt(at);
      case INT64:
        return from.getLong(at);
      case BOOL:
        return from.get(at) != 0 ? 1 : 0;
      case FLOAT16:
        return fromHalf(from.getShort(at));
      default:
        throw new IllegalArgumentException("tensors of type " + type + " cannot be read");
    }
  }

  /** The nearest number of 16 bits, ties to even; too large ones are infinite. */
  static short toHalf(float value) {
    int bits = Float.floatToRawIntBits(value);
    int sign = (bits >>> 16) & 0x8000;
    int magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
      return (short) (sign | 0x7E00);
    }
    if (magnitude >= 0x477FF000) {
      return (short) (sign | 0x7C00);
    }
    if (magnitude < 0x38800000) { // below 2^-14: a whole number of 2^-24
      return (short) (sign | (int) Math.rint(Float.intBitsToFloat(magnitude) * (double) (1 << 24)));
    }
    int half = (magnitude - 0x38000000) >>> 13;
    int rest = magnitude & 0x1FFF;
    if (rest > 0x1000 || (rest == 0x1000 && (half & 1) != 0)) {
      half++;
    }
    return (short) (sign | half);
  }

  static float fromHalf(short half) {
    int exponent = (half >>> 10) & 0x1F;
    int fraction = half & 0x3FF;
    float magnitude;
    if (exponent == 0) {
      magnitude = fraction / (float) (1 << 24);
    } else if (exponent == 31) {
      magnitude = fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN;
    } else {
      magnitude = Float.intBitsToFloat((exponent + 112) << 23 | fraction << 13);
    }
    return (half & 0x8000) == 0 ? magnitude : -magnitude;
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this system has no SHA-256", e);
    }
  }

  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder(2 * bytes.length);
    for (byte b : bytes) {
      text.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
    }
    return text.toString();
  }
}
