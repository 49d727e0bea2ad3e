package android.widget;

import android.content.Context;
import android.view.View;

/** A stand-in. */
public class RadioGroup extends LinearLayout {
  private int checked = -1;
  private OnCheckedChangeListener listener;

  public RadioGroup(Context context) {
    super(context);
  }

  @Override
  public void addView(View child) {
    super.addView(child);
    ((CompoundButton) child).group = this;
  }

  public void check(int id) {
    if (id == checked) {
      return;
    }
    if (checked != -1 && listener != null) {
      listener.onCheckedChanged(this, checked); // as Android does when the old button goes off
    }
    checked = id;
    for (View child : children) {
      ((CompoundButton) child).setChecked(child.id == id);
    }
    if (listener != null) {
      listener.onCheckedChanged(this, id);
    }
  }

  public void setOnCheckedChangeListener(OnCheckedChangeListener listener) {
    this.listener = listener;
  }

  public interface OnCheckedChangeListener {
    void onCheckedChanged(RadioGroup group, int checkedId);
  }
}
