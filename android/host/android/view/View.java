package android.view;

import android.content.Context;
import android.graphics.Canvas;
import java.util.List;

/** A stand-in that keeps what the tests ask for. */
public class View {
  public static final int VISIBLE = 0;
  public static final int GONE = 8;

  public Object tag;
  public int id = -1;
  public int visibility;
  private OnClickListener listener;
  private int width;
  private int height;

  public View(Context context) {}

  /** Gives it a size, as wide as it is allowed to be. */
  public void lay(int most) {
    onMeasure(most, 0);
  }

  /** What it draws now. */
  public List<String> drawn() {
    Canvas canvas = new Canvas();
    onDraw(canvas);
    return canvas.drawn;
  }

  protected void onMeasure(int widthMeasureSpec, int heightMeasureSpec) {
    setMeasuredDimension(widthMeasureSpec, 0);
  }

  protected final void setMeasuredDimension(int measuredWidth, int measuredHeight) {
    width = measuredWidth;
    height = measuredHeight;
  }

  protected void onDraw(Canvas canvas) {}

  public boolean onTouchEvent(MotionEvent event) {
    return false;
  }

  public boolean performClick() {
    if (listener == null) {
      return false;
    }
    listener.onClick(this);
    return true;
  }

  public void invalidate() {}

  public void requestLayout() {}

  public final int getWidth() {
    return width;
  }

  public final int getHeight() {
    return height;
  }

  public void setBackgroundColor(int color) {}

  public void setContentDescription(CharSequence contentDescription) {}

  public void setFitsSystemWindows(boolean fitSystemWindows) {}

  public void setId(int id) {
    this.id = id;
  }

  public void setOnClickListener(OnClickListener l) {
    listener = l;
  }

  public void setPadding(int left, int top, int right, int bottom) {}

  public void setTag(Object tag) {
    this.tag = tag;
  }

  public void setVisibility(int visibility) {
    this.visibility = visibility;
  }

  public interface OnClickListener {
    void onClick(View v);
  }

  public static class MeasureSpec {
    public MeasureSpec() {}

    public static int getSize(int measureSpec) {
      return measureSpec;
    }
  }
}
