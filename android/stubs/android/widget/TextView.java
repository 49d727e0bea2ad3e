package android.widget;

import android.content.Context;
import android.graphics.Typeface;
import android.view.View;

public class TextView extends View {
  public TextView(Context context) {
    super(context);
    throw new RuntimeException("stub");
  }

  public final void setText(CharSequence text) {
    throw new RuntimeException("stub");
  }

  public void setTextColor(int color) {
    throw new RuntimeException("stub");
  }

  public void setTextSize(float size) {
    throw new RuntimeException("stub");
  }

  public void setTypeface(Typeface tf) {
    throw new RuntimeException("stub");
  }
}
