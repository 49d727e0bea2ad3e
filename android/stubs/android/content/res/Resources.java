package android.content.res;

import android.util.DisplayMetrics;

public class Resources {
  Resources() {}

  public DisplayMetrics getDisplayMetrics() {
    throw new RuntimeException("stub");
  }
}
