package ai.edgemem.demo;

/** Draws shaded ellipses, enough for faces. */
final class Drawing {
  private final int width;
  private final int height;
  private final int[] argb;

  Drawing(int width, int height) {
    this.width = width;
    this.height = height;
    argb = new int[width * height];
  }

  Picture picture() {
    return new Picture(width, height, argb);
  }

  void background(int top, int bottom) {
    for (int y = 0; y < height; y++) {
      int colour = mixed(top, bottom, y / (float) height);
      for (int x = 0; x < width; x++) {
        argb[y * width + x] = colour;
      }
    }
  }

  /** A face seen from the front, with neck and hair. */
  void face(float x, float y, float radius, int skin, int hair) {
    int shade = mixed(skin, 0xFF301810, 0.35f);
    int dark = mixed(skin, 0xFF201008, 0.6f);
    int lips = mixed(skin, 0xFF8A2A2A, 0.6f);
    ellipse(x, y + 2.3f * radius, 1.7f * radius, 1.0f * radius, 0xFF3D5A80, 0xFF223248); // shoulders
    ellipse(x, y + 1.25f * radius, 0.42f * radius, 0.6f * radius, shade, dark); // neck
    ellipse(x, y - 0.28f * radius, 1.02f * radius, 1.12f * radius, hair, mixed(hair, 0xFF000000, 0.4f));
    ellipse(x, y + 0.1f * radius, 0.82f * radius, 1.1f * radius, skin, shade);
    ellipse(x, y - 0.8f * radius, 0.78f * radius, 0.4f * radius, hair, hair); // fringe
    for (int side = -1; side <= 1; side += 2) {
      float eye = x + side * 0.34f * radius;
      ellipse(x + side * 0.83f * radius, y + 0.05f * radius, 0.1f * radius, 0.22f * radius, shade, dark); // ear
      ellipse(eye, y - 0.12f * radius, 0.22f * radius, 0.15f * radius, shade, mixed(skin, shade, 0.5f)); // socket
      ellipse(eye, y - 0.3f * radius, 0.24f * radius, 0.055f * radius, hair, hair); // brow
      ellipse(eye, y - 0.1f * radius, 0.165f * radius, 0.085f * radius, 0xFFF4F0EA, 0xFFC8C0B8);
      ellipse(eye, y - 0.1f * radius, 0.085f * radius, 0.085f * radius, 0xFF3A2418, 0xFF1A100A);
      ellipse(eye - 0.03f * radius, y - 0.13f * radius, 0.025f * radius, 0.025f * radius, 0xFFFFFFFF, 0xFFFFFFFF);
      ellipse(x + side * 0.09f * radius, y + 0.33f * radius, 0.055f * radius, 0.04f * radius, dark, dark); // nostril
    }
    ellipse(x, y + 0.14f * radius, 0.085f * radius, 0.24f * radius, mixed(skin, 0xFFFFFFFF, 0.25f), skin); // nose
    ellipse(x, y + 0.62f * radius, 0.3f * radius, 0.095f * radius, lips, mixed(lips, 0xFF000000, 0.3f));
    ellipse(x, y + 0.61f * radius, 0.24f * radius, 0.015f * radius, dark, dark); // between the lips
    ellipse(x, y + 0.8f * radius, 0.2f * radius, 0.05f * radius, shade, mixed(skin, shade, 0.5f)); // under them
  }

  /** Coloured from its centre to its edge; pixels at the edge are mixed with what is there. */
  private void ellipse(float x, float y, float a, float b, int centre, int edge) {
    int top = Math.max(0, (int) Math.floor(y - b - 1));
    int bottom = Math.min(height - 1, (int) Math.ceil(y + b + 1));
    int left = Math.max(0, (int) Math.floor(x - a - 1));
    int right = Math.min(width - 1, (int) Math.ceil(x + a + 1));
    float soft = Math.min(a, b);
    for (int row = top; row <= bottom; row++) {
      for (int column = left; column <= right; column++) {
        float u = (column + 0.5f - x) / a;
        float v = (row + 0.5f - y) / b;
        float distance = (float) Math.sqrt(u * u + v * v);
        float cover = Math.max(0, Math.min(1, (1 - distance) * soft + 0.5f));
        if (cover > 0) {
          int at = row * width + column;
          argb[at] = mixed(argb[at], mixed(centre, edge, Math.min(1, distance * distance)), cover);
        }
      }
    }
  }

  /** `from` at 0, `to` at 1. */
  static int mixed(int from, int to, float share) {
    int colour = 0xFF;
    for (int shift = 16; shift >= 0; shift -= 8) {
      int one = (from >> shift) & 0xFF;
      int other = (to >> shift) & 0xFF;
      colour = colour << 8 | Math.round(one + (other - one) * share);
    }
    return colour;
  }
}
