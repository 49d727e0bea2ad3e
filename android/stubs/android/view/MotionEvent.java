package android.view;

public final class MotionEvent extends InputEvent {
  public static final int ACTION_UP = 1;

  MotionEvent() {}

  public final int getAction() {
    throw new RuntimeException("stub");
  }

  public final float getX() {
    throw new RuntimeException("stub");
  }

  public final float getY() {
    throw new RuntimeException("stub");
  }
}
