package ai.edgemem.demo;

import ai.edgemem.Record;
import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Color;
import android.graphics.Paint;
import android.view.MotionEvent;
import android.view.View;
import java.util.Collections;
import java.util.List;

/** The plan as a picture: time from left to right, the arena's bytes from the bottom up, a rectangle for each request. */
final class MemoryMapView extends View {
  /** Is told which rectangle was tapped; null for a tap beside them. */
  interface Listener {
    void selected(Record record);
  }

  private static final float HUE_STEP = 137.508f; // the golden angle: neighbours differ

  private final Paint paint = new Paint(Paint.ANTI_ALIAS_FLAG);
  private final float density;
  private List<Record> places = Collections.emptyList();
  private Record selected;
  private long lowerBound;
  private long height;
  private long steps;
  private Listener listener;

  MemoryMapView(Context context) {
    super(context);
    density = context.getResources().getDisplayMetrics().density;
    setContentDescription("memory map");
  }

  void setListener(Listener one) {
    listener = one;
  }

  /**
   * @param of the plan in use; the same list as before changes nothing
   * @param arena bytes of it
   * @param bound the lower bound in bytes, or 0 for none
   */
  void setPlan(List<Record> of, long arena, long bound) {
    places = of;
    lowerBound = bound;
    height = Math.max(arena, bound);
    steps = 0;
    boolean isStillThere = false;
    for (Record record : of) {
      height = Math.max(height, record.offset + record.size);
      steps = Math.max(steps, record.last + 1);
      isStillThere |= selected != null && isSame(record, selected);
    }
    if (!isStillThere) {
      selected = null;
    }
    invalidate();
  }

  private static boolean isSame(Record a, Record b) {
    return a.name.equals(b.name) && a.first == b.first && a.last == b.last && a.offset == b.offset && a.size == b.size;
  }

  @Override
  protected void onMeasure(int widthSpec, int heightSpec) {
    setMeasuredDimension(MeasureSpec.getSize(widthSpec), Math.round(240 * density));
  }

  @Override
  protected void onDraw(Canvas canvas) {
    super.onDraw(canvas);
    canvas.drawColor(Look.DEEP);
    if (steps == 0 || height == 0) {
      label(canvas, "no plan in use", 8 * density, getHeight() / 2f);
      return;
    }
    for (int i = 0; i < places.size(); i++) {
      Record record = places.get(i);
      if (record.offset >= 0 && record.size > 0) {
        draw(canvas, record, i);
      }
    }
    paint.setStyle(Paint.Style.FILL);
    if (lowerBound > 0) {
      paint.setColor(Look.ACCENT);
      paint.setStrokeWidth(2 * density);
      canvas.drawLine(0, y(lowerBound), getWidth(), y(lowerBound), paint);
      label(canvas, "lower bound " + Texts.size(lowerBound), getWidth() - 140 * density, y(lowerBound) - 3 * density);
    }
    label(canvas, "events 0 to " + Texts.count(steps - 1), 8 * density, 10 * density);
  }

  private void draw(Canvas canvas, Record record, int index) {
    boolean isSelected = selected != null && isSame(record, selected);
    float gap = density / 2;
    float right = Math.max(x(record.last + 1) - gap, x(record.first) + density);
    float bottom = y(record.offset);
    float top = Math.min(y(record.offset + record.size) + gap, bottom - density); // small ones are seen, too
    paint.setStyle(Paint.Style.FILL);
    paint.setColor(isSelected ? Color.WHITE : Color.HSVToColor(new float[] {index * HUE_STEP % 360, 0.55f, 0.85f}));
    canvas.drawRect(x(record.first), top, right, bottom, paint);
  }

  private void label(Canvas canvas, String text, float left, float bottom) {
    paint.setStyle(Paint.Style.FILL);
    paint.setColor(Color.WHITE);
    paint.setTextSize(11 * density);
    canvas.drawText(text, left, bottom, paint);
  }

  private float x(long step) {
    return step * (float) getWidth() / steps;
  }

  /** With room above for a line at the top. */
  private float y(long bytes) {
    return getHeight() - bytes * 0.95f * getHeight() / height;
  }

  @Override
  public boolean onTouchEvent(MotionEvent event) {
    if (event.getAction() == MotionEvent.ACTION_UP) {
      selected = at(event.getX(), event.getY());
      invalidate();
      performClick();
    }
    return true;
  }

  @Override
  public boolean performClick() {
    super.performClick();
    if (listener != null) {
      listener.selected(selected);
    }
    return true;
  }

  private Record at(float touchX, float touchY) {
    for (Record record : places) {
      boolean isIn = steps > 0 && touchX >= x(record.first) && touchX <= x(record.last + 1);
      if (isIn && record.offset >= 0 && touchY <= y(record.offset) && touchY >= y(record.offset + record.size)) {
        return record;
      }
    }
    return null;
  }
}
