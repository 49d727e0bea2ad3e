package android.graphics;

public class Typeface {
  public static final Typeface DEFAULT_BOLD = null;
  public static final Typeface MONOSPACE = null;

  Typeface() {}
}
