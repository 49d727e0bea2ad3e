package android.widget;

import android.content.Context;
import android.view.ViewGroup;

public class FrameLayout extends ViewGroup {
  public FrameLayout(Context context) {
    super(context);
    throw new RuntimeException("stub");
  }
}
