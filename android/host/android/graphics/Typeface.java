package android.graphics;

/** A stand-in. */
public class Typeface {
  public static final Typeface DEFAULT_BOLD = new Typeface();
  public static final Typeface MONOSPACE = new Typeface();
}
