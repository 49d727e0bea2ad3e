package android.widget;

import android.content.Context;

/** A stand-in. */
public abstract class CompoundButton extends Button {
  public boolean isChecked;
  RadioGroup group;
  private OnCheckedChangeListener listener;

  public CompoundButton(Context context) {
    super(context);
  }

  public void setChecked(boolean checked) {
    if (checked != isChecked) {
      isChecked = checked;
      if (listener != null) {
        listener.onCheckedChanged(this, checked);
      }
    }
  }

  public void setOnCheckedChangeListener(OnCheckedChangeListener listener) {
    this.listener = listener;
  }

  @Override
  public boolean performClick() {
    if (group == null) {
      setChecked(!isChecked);
    } else {
      group.check(id);
    }
    super.performClick();
    return true;
  }

  public interface OnCheckedChangeListener {
    void onCheckedChanged(CompoundButton buttonView, boolean isChecked);
  }
}
