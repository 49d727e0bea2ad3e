package android.widget;

import android.content.Context;
import android.view.View;

/** A stand-in that allows one child, as the real one does. */
public class ScrollView extends FrameLayout {
  public ScrollView(Context context) {
    super(context);
  }

  @Override
  public void addView(View child) {
    if (!children.isEmpty()) {
      throw new IllegalStateException("ScrollView can host only one direct child");
    }
    super.addView(child);
  }
}
