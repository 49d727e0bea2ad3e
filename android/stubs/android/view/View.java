package android.view;

import android.content.Context;
import android.graphics.Canvas;

public class View {
  public static final int VISIBLE = 0;
  public static final int GONE = 8;

  public View(Context context) {
    throw new RuntimeException("stub");
  }

  protected void onMeasure(int widthMeasureSpec, int heightMeasureSpec) {
    throw new RuntimeException("stub");
  }

  protected final void setMeasuredDimension(int measuredWidth, int measuredHeight) {
    throw new RuntimeException("stub");
  }

  protected void onDraw(Canvas canvas) {
    throw new RuntimeException("stub");
  }

  public boolean onTouchEvent(MotionEvent event) {
    throw new RuntimeException("stub");
  }

  public boolean performClick() {
    throw new RuntimeException("stub");
  }

  public void invalidate() {
    throw new RuntimeException("stub");
  }

  public void requestLayout() {
    throw new RuntimeException("stub");
  }

  public final int getWidth() {
    throw new RuntimeException("stub");
  }

  public final int getHeight() {
    throw new RuntimeException("stub");
  }

  public void setBackgroundColor(int color) {
    throw new RuntimeException("stub");
  }

  public void setContentDescription(CharSequence contentDescription) {
    throw new RuntimeException("stub");
  }

  public void setFitsSystemWindows(boolean fitSystemWindows) {
    throw new RuntimeException("stub");
  }

  public void setId(int id) {
    throw new RuntimeException("stub");
  }

  public void setOnClickListener(OnClickListener l) {
    throw new RuntimeException("stub");
  }

  public void setPadding(int left, int top, int right, int bottom) {
    throw new RuntimeException("stub");
  }

  public void setTag(Object tag) {
    throw new RuntimeException("stub");
  }

  public void setVisibility(int visibility) {
    throw new RuntimeException("stub");
  }

  public interface OnClickListener {
    void onClick(View v);
  }

  public static class MeasureSpec {
    public MeasureSpec() {
      throw new RuntimeException("stub");
    }

    public static int getSize(int measureSpec) {
      throw new RuntimeException("stub");
    }
  }
}
