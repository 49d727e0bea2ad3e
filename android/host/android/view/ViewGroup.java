package android.view;

import android.content.Context;
import java.util.ArrayList;
import java.util.List;

/** A stand-in: each child is as wide as the group. */
public abstract class ViewGroup extends View {
  public final List<View> children = new ArrayList<>();

  public ViewGroup(Context context) {
    super(context);
  }

  @Override
  public void lay(int most) {
    super.lay(most);
    for (View child : children) {
      child.lay(most);
    }
  }

  public void addView(View child) {
    children.add(child);
  }

  public void addView(View child, LayoutParams params) {
    children.add(child);
  }

  public static class LayoutParams {
    public static final int MATCH_PARENT = -1;
    public static final int WRAP_CONTENT = -2;

    public LayoutParams(int width, int height) {}
  }

  public static class MarginLayoutParams extends LayoutParams {
    public MarginLayoutParams(int width, int height) {
      super(width, height);
    }

    public void setMargins(int left, int top, int right, int bottom) {}
  }
}
