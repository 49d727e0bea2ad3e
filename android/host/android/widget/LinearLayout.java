package android.widget;

import android.content.Context;
import android.view.ViewGroup;

/** A stand-in. */
public class LinearLayout extends ViewGroup {
  public static final int HORIZONTAL = 0;
  public static final int VERTICAL = 1;

  public LinearLayout(Context context) {
    super(context);
  }

  public void setOrientation(int orientation) {}

  public static class LayoutParams extends ViewGroup.MarginLayoutParams {
    public LayoutParams(int width, int height) {
      super(width, height);
    }
  }
}
