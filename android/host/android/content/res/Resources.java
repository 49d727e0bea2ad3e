package android.content.res;

import android.util.DisplayMetrics;

/** A stand-in. */
public class Resources {
  public DisplayMetrics getDisplayMetrics() {
    return new DisplayMetrics();
  }
}
