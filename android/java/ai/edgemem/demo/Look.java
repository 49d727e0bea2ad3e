package ai.edgemem.demo;

/** The app's colours. */
final class Look {
  static final int BACKGROUND = 0xFF10151C;
  static final int CARD = 0xFF1A222D;
  static final int DEEP = 0xFF0A0E13;
  static final int TEXT = 0xFFE6EAF0;
  static final int FAINT = 0xFF93A1B3;
  static final int ACCENT = 0xFF2EE6A8;
  static final int WARNING = 0xFFFFC857;

  private Look() {}
}
