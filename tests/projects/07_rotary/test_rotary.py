from pytest_roofline.testing import *
