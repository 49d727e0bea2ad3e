package ai.edgemem.demo;

import android.content.Context;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Rect;
import android.graphics.RectF;
import android.view.View;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/** The model's picture, with boxes around what it found. */
final class PictureView extends View {
  private final Paint paint = new Paint(Paint.ANTI_ALIAS_FLAG | Paint.FILTER_BITMAP_FLAG);
  private final float density;
  private Picture picture;
  private Bitmap bitmap;
  private List<Faces.Box> boxes = Collections.emptyList();

  PictureView(Context context) {
    super(context);
    density = context.getResources().getDisplayMetrics().density;
    setContentDescription("input picture");
  }

  /** Shows a picture, or none for null. */
  void show(Picture one, List<Faces.Box> found) {
    if (one != picture) {
      picture = one;
      bitmap =
          one == null ? null : Bitmap.createBitmap(one.argb, one.width, one.height, Bitmap.Config.ARGB_8888);
      requestLayout();
    }
    boxes = found;
    invalidate();
  }

  @Override
  protected void onMeasure(int widthSpec, int heightSpec) {
    int width = MeasureSpec.getSize(widthSpec);
    long height = picture == null ? 0 : (long) width * picture.height / picture.width;
    setMeasuredDimension(width, (int) Math.min(height, Math.round(360 * density)));
  }

  @Override
  protected void onDraw(Canvas canvas) {
    super.onDraw(canvas);
    if (bitmap == null) {
      return;
    }
    float scale = Math.min(getWidth() / (float) picture.width, getHeight() / (float) picture.height);
    float width = scale * picture.width;
    float height = scale * picture.height;
    float left = (getWidth() - width) / 2;
    Rect all = new Rect(0, 0, picture.width, picture.height);
    canvas.drawBitmap(bitmap, all, new RectF(left, 0, left + width, height), paint);
    paint.setColor(Look.ACCENT);
    paint.setStrokeWidth(3 * density);
    paint.setTextSize(14 * density);
    for (Faces.Box box : boxes) {
      float x = left + box.left * width;
      float y = box.top * height;
      paint.setStyle(Paint.Style.STROKE);
      canvas.drawRect(x, y, left + box.right * width, box.bottom * height, paint);
      paint.setStyle(Paint.Style.FILL);
      canvas.drawText(String.format(Locale.ROOT, "%.0f%%", 100 * box.score), x, y - 4 * density, paint);
    }
  }
}
