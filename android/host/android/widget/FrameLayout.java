package android.widget;

import android.content.Context;
import android.view.ViewGroup;

/** A stand-in. */
public class FrameLayout extends ViewGroup {
  public FrameLayout(Context context) {
    super(context);
  }
}
